//! Reasons why pods do not run, and their last log lines.

use super::client::ApiError;
use super::cluster::{Cluster, Instance};
use super::names;
use super::object::Resource;
use serde_json::Value;
use std::collections::HashMap;

/// A container in back-off after this many crashes counts as failed. The first crashes are often those of a program
/// that waits for another.
const CRASHES_MAX: u64 = 4;
/// Permanent reasons.
const PERMANENT_REASONS: [&str; 2] = ["InvalidImageName", "ErrImageNeverPull"];
/// Normal reasons during a start.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Number of pods in a message.
const PODS_MAX: usize = 3;
const MESSAGE_CHARS_MAX: usize = 300;
/// Log lines of a failed container in its message.
const LAST_LINES: &str = "5";
/// The longest log line that is returned.
const LINE_CHARS_MAX: usize = 2_000;

/// A container that cannot start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pod: String,
    container: String,
    words: String,
    /// It ran and exited, so it has a log.
    crashed: bool,
}

/// Restarts of each container of each pod.
pub(super) type Restarts = HashMap<(String, String), u64>;

fn resource() -> Resource {
    Resource::fixed("v1", "Pod", "pods", true)
}

impl Cluster {
    pub(super) async fn pods(&self, instance: &Instance) -> Result<Vec<Value>, ApiError> {
        let path = resource().path(Some(&instance.namespace), None);
        let mut pods = self.client.list(&path, &names::selector(&instance.name), false).await?;
        pods.sort_by(|one, other| name(one).cmp(name(other)));
        Ok(pods)
    }

    /// The failure with the last log lines of the container.
    pub(super) async fn quote(&self, broken: &Broken, instance: &Instance) -> String {
        let Broken { pod, container, words, crashed } = broken;
        let message = format!("pod `{pod}`, container `{container}`: {words}");
        if !crashed {
            return message;
        }
        let mut path = resource().path(Some(&instance.namespace), Some(pod));
        path.push("log".to_owned());
        let query = [("container", container.as_str()), ("tailLines", LAST_LINES), ("previous", "true")];
        match self.client.text(&path, &query).await {
            Ok(text) if !text.trim().is_empty() => {
                let text = text.trim().replace('\n', " / ");
                format!("{message}; its last lines: {}", text.chars().take(LINE_CHARS_MAX).collect::<String>())
            }
            _ => message,
        }
    }

    /// The last log lines of all containers of a component, each with its pod.
    pub(super) async fn pod_logs(&self, instance: &Instance, lines: usize) -> Result<String, ApiError> {
        let lines = lines.to_string();
        let mut words = String::new();
        for pod in self.pods(instance).await? {
            for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
                let Some(container) = container["name"].as_str() else { continue };
                let mut path = resource().path(Some(&instance.namespace), Some(name(&pod)));
                path.push("log".to_owned());
                let query = [("container", container), ("tailLines", &lines)];
                let text = match self.client.text(&path, &query).await {
                    Ok(text) => text,
                    Err(error @ ApiError::Unreachable(_)) => return Err(error),
                    // A container that has not started has no log.
                    Err(_) => continue,
                };
                for line in text.lines() {
                    let line: String = line.trim_end().chars().take(LINE_CHARS_MAX).collect();
                    words.extend([name(&pod), "/", container, " | ", &line, "\n"]);
                }
            }
        }
        Ok(words)
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"].into_iter().map(|list| &pod["status"][list]);
    lists.filter_map(Value::as_array).flatten()
}

/// The current restarts of all containers.
pub(super) fn restarts(pods: &[Value]) -> Restarts {
    let all = pods.iter().flat_map(|pod| statuses(pod).map(move |status| (pod, status)));
    all.filter_map(|(pod, status)| {
        let count = status["restartCount"].as_u64().unwrap_or(0);
        Some(((name(pod).to_owned(), status["name"].as_str()?.to_owned()), count))
    })
    .collect()
}

/// The first container that cannot start. An existing pod may belong to an older revision that is being deleted: only
/// its later restarts count.
pub(super) fn broken(pods: &[Value], before: &Restarts) -> Option<Broken> {
    pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).find_map(|pod| {
        statuses(pod).find_map(|status| {
            let container = status["name"].as_str().unwrap_or_default().to_owned();
            let reason = status["state"]["waiting"]["reason"].as_str()?;
            let pod = name(pod).to_owned();
            let known = before.get(&(pod.clone(), container.clone())).copied();
            let earlier = known.unwrap_or(0);
            let count = status["restartCount"].as_u64().unwrap_or(0).saturating_sub(earlier);
            let crashed = reason == "CrashLoopBackOff" && count >= CRASHES_MAX;
            let hopeless = known.is_none() && PERMANENT_REASONS.contains(&reason);
            (crashed || hopeless).then(|| Broken { pod, container, words: waiting(status, reason), crashed })
        })
    })
}

fn waiting(status: &Value, reason: &str) -> String {
    let code = status["lastState"]["terminated"]["exitCode"].as_i64();
    if let ("CrashLoopBackOff", Some(code)) = (reason, code) {
        let count = status["restartCount"].as_u64().unwrap_or(0);
        return format!("CrashLoopBackOff, it exited with code {code} and was restarted {count} times");
    }
    match status["state"]["waiting"]["message"].as_str() {
        Some(message) => format!("{reason}: {}", message.chars().take(MESSAGE_CHARS_MAX).collect::<String>()),
        None => reason.to_owned(),
    }
}

/// The reasons why pods do not run, as text.
pub(super) fn reasons(pods: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
        for status in statuses(pod) {
            let container = status["name"].as_str().unwrap_or_default();
            if let Some(reason) = status["state"]["waiting"]["reason"].as_str().filter(|reason| !USUAL.contains(reason))
            {
                found.push(format!("pod `{}`, container `{container}`: {}", name(pod), waiting(status, reason)));
            }
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let unscheduled = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
        for condition in conditions.filter(unscheduled) {
            let message = condition["message"].as_str().unwrap_or("no node has room for it");
            found.push(format!("pod `{}` is not scheduled: {message}", name(pod)));
        }
    }
    found.truncate(PODS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(reason: &str, restarts: u64) -> Value {
        json!({ "metadata": { "name": "web-1" }, "status": { "containerStatuses": [{
            "name": "web", "restartCount": restarts, "state": { "waiting": { "reason": reason, "message": "back-off" } },
            "lastState": { "terminated": { "exitCode": 3 } },
        }] } })
    }

    #[test]
    fn reports_a_failing_pull_and_keeps_waiting() {
        for reason in ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"] {
            let pods = [pod(reason, 0)];
            assert_eq!(broken(&pods, &Restarts::new()), None);
            assert_eq!(reasons(&pods), [format!("pod `web-1`, container `web`: {reason}: back-off")]);
        }
        assert!(reasons(&[pod("ContainerCreating", 0)]).is_empty());
    }

    #[test]
    fn a_crash_loop_fails_before_the_timeout() {
        assert_eq!(broken(&[pod("CrashLoopBackOff", 2)], &Restarts::new()), None);
        let pods = [pod("CrashLoopBackOff", 4)];
        let found = broken(&pods, &Restarts::new()).unwrap();
        assert_eq!(found.words, "CrashLoopBackOff, it exited with code 3 and was restarted 4 times");
        assert!(found.crashed);
        // It crashed before this work started.
        assert_eq!(broken(&pods, &restarts(&pods)), None);
        let pods = [pod("InvalidImageName", 0)];
        assert!(!broken(&pods, &Restarts::new()).unwrap().crashed);
        assert_eq!(broken(&pods, &restarts(&pods)), None, "it may be of the revision before");
    }

    #[test]
    fn reports_an_unschedulable_pod() {
        let conditions = json!([{ "type": "PodScheduled", "status": "False", "message": "Insufficient memory." }]);
        let pod = json!({ "metadata": { "name": "web-1" }, "status": { "conditions": conditions } });
        assert_eq!(reasons(&[pod]), ["pod `web-1` is not scheduled: Insufficient memory."]);
    }
}
