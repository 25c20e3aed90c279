//! Compares the current state of a component with the applied state.

use super::applied::{Applied, AppliedObject};
use super::client::ApiError;
use super::cluster::{Cluster, Instance};
use super::drift;
use super::jobs;
use super::pods::{self, Restarts};
use super::readiness::{Health, health};
use crate::machine::io::Run;
use crate::runtimes::ledger::Entry;
use serde_json::Value;

/// The findings about a component.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) stopped: Vec<String>,
    pub(super) differs: Vec<String>,
    coming: bool,
}

impl Found {
    pub(super) fn run_state(mut self) -> (Run, Vec<String>) {
        self.differs.extend(self.stopped.iter().cloned());
        let run = match (self.stopped.is_empty(), self.coming) {
            (false, _) => Run::Stopped { message: self.stopped.join("; ") },
            (true, true) => Run::Starting,
            (true, false) => Run::Running,
        };
        (run, self.differs)
    }

    fn take(&mut self, object: &AppliedObject, live: Option<&Value>) {
        let AppliedObject { reference, manifest, taken, scaled, done } = object;
        let Some(live) = live else {
            if !done {
                self.stopped.push(format!("{reference} is missing"));
            }
            return;
        };
        if !live["metadata"]["deletionTimestamp"].is_null() {
            self.stopped.push(format!("{reference} is being deleted"));
            return;
        }
        let now = drift::taken(manifest, live, *scaled);
        let words = drift::differences(taken, &now).into_iter();
        self.differs.extend(words.map(|words| format!("{reference}: {words}")));
        match health(live) {
            Health::Ready => {}
            Health::Failed(words) if jobs::runs_once(&reference.kind) => {
                self.stopped.push(format!("{reference} {words}"));
            }
            Health::Coming(_) | Health::Failed(_) => self.coming = true,
        }
    }
}

impl Cluster {
    /// Observes every object.
    pub(super) async fn look(&self, entry: &Entry) -> Result<(Found, Option<Applied>), ApiError> {
        let instance = Instance::of(entry);
        let mut found = Found::default();
        let Some(applied) = Applied::read(&self.instance_folder(&instance)) else {
            found.stopped.push("the applied state is unknown".to_owned());
            return Ok((found, None));
        };
        for object in &applied.objects {
            let live = match self.find(&object.reference).await {
                Err(error @ ApiError::Unreachable(_)) => return Err(error),
                // A kind that the cluster no longer has.
                Err(ApiError::Failed(_)) => None,
                other => other?,
            };
            found.take(object, live.as_ref());
        }
        if found.coming {
            let pods = self.pods(&instance).await?;
            if let Some(broken) = pods::broken(&pods, &Restarts::new()) {
                found.stopped.push(self.quote(&broken, &instance).await);
            }
        }
        self.renew_logins(&applied, &instance).await;
        Ok((found, Some(applied)))
    }

    /// Updates changed credentials in the cluster automatically.
    async fn renew_logins(&self, applied: &Applied, instance: &Instance) {
        let manifests = applied.manifests();
        let desired = self.logins_digest(&manifests);
        // A maintenance hold stops this too, because it is a change.
        if self.is_held() || desired.is_none() || desired == applied.logins {
            return;
        }
        let renewed = match self.put_logins(&manifests, instance).await {
            Ok(logins) => Applied { logins, ..applied.clone() },
            Err(error) => return tracing::warn!("credentials for images of `{}`: {error}", instance.component),
        };
        if let Err(error) = renewed.write(&self.instance_folder(instance)) {
            tracing::warn!("credentials for images of `{}`: {}", instance.component, error.chain());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::kubernetes::object::ObjectRef;
    use serde_json::json;

    fn deployment(replicas: u64, available: u64) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": { "replicas": replicas },
            "status": { "updatedReplicas": replicas, "replicas": replicas, "availableReplicas": available } })
    }

    fn look(live: Option<&Value>) -> (Run, Vec<String>) {
        let manifest = deployment(1, 1);
        let object = AppliedObject {
            reference: ObjectRef::of(&manifest).unwrap(),
            taken: drift::taken(&manifest, &manifest, false),
            manifest,
            scaled: false,
            done: false,
        };
        let mut found = Found::default();
        found.take(&object, live);
        found.run_state()
    }

    #[test]
    fn describes_differences_as_text() {
        assert_eq!(look(Some(&deployment(1, 1))), (Run::Running, Vec::new()));
        assert_eq!(look(Some(&deployment(1, 0))), (Run::Starting, Vec::new()));
        let (run, differs) = look(Some(&deployment(3, 3)));
        assert_eq!((run, differs), (Run::Running, vec!["Deployment `web`: replicas is 3, expected 1".to_owned()]));
        let (run, differs) = look(None);
        assert_eq!(run, Run::Stopped { message: "Deployment `web` is missing".to_owned() });
        assert_eq!(differs, ["Deployment `web` is missing"]);
    }
}
