//! A random operator that uses the real API.

use super::RunContext;
use indexmap::IndexMap;
use margrave_api::access::CreateToken;
use margrave_api::client::{ApiClient, ClientError, DeploymentQuery, PageQuery};
use margrave_api::deployments::{Deployment, UpdateDeployment};
use margrave_api::devices::{DeviceRef, PutGroup, UpdateDevice};
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng as _};

/// Each can be deployed once per device.
pub const APPLICATIONS: [&str; 3] = ["alpha", "beta", "gamma"];

/// Most deployments, so that the fleet can sometimes settle between two kills.
const DEPLOYMENTS_MAX: usize = 24;

/// Most tokens and groups, because each is read back at the end.
const EXTRAS_MAX: usize = 150;

struct Operator {
    stage: RunContext,
    api: ApiClient,
    devices: Vec<DeviceRef>,
    dice: StdRng,
    /// Counter for unique labels, tokens and groups.
    count: u64,
}

/// Runs until the end. Only server errors (5xx) are recorded as violations.
pub async fn operate(stage: RunContext, api: ApiClient, devices: Vec<DeviceRef>, seed: u64) {
    let mut operator = Operator { stage, api, devices, dice: StdRng::seed_from_u64(seed), count: 0 };
    while !operator.stage.is_over() {
        operator.stage.ready().await;
        let outcome = match operator.dice.random_range(0..10) {
            0..=5 => operator.rollout().await,
            6..=7 => operator.label().await,
            8 => operator.token().await,
            _ => operator.group().await,
        };
        if let Err(ClientError::Problem(problem)) = &outcome
            && problem.status >= 500
        {
            operator.stage.ledger().server_errors.push(format!("{} {}", problem.status, problem.detail));
        }
        tokio::task::yield_now().await;
    }
}

type Done = Result<(), ClientError>;

impl Operator {
    async fn rollout(&mut self) -> Done {
        let page = PageQuery { limit: Some(200), after: None };
        let present = self.api.deployments(&DeploymentQuery::default(), &page).await?.items;
        if present.len() >= DEPLOYMENTS_MAX {
            return self.remove(&present).await;
        }
        match self.dice.random_range(0..6) {
            0..=2 => self.create().await,
            3 => self.remove(&present).await,
            _ => self.update(&present).await,
        }
    }

    async fn create(&mut self) -> Done {
        let count = self.dice.random_range(1..=3);
        let devices = self.devices.choose_multiple(&mut self.dice, count).cloned().collect();
        let body = CreateRollout {
            kind: RolloutKind::Create,
            application: (*APPLICATIONS.choose(&mut self.dice).expect("not empty")).to_owned(),
            version: Some("1.0.0".to_owned()),
            profile: None,
            scope: Scope { devices: Some(devices), ..Scope::default() },
            values: self.values(),
            policy: PolicyPatch::default(),
            skip_incompatible: false,
            comment: Some("the kill loop".to_owned()),
        };
        let rollout = self.api.create_deployments(&body).await?;
        self.stage.ledger().rollouts.push((rollout.id, None));
        Ok(())
    }

    async fn update(&mut self, present: &[Deployment]) -> Done {
        let Some(chosen) = present.choose(&mut self.dice) else { return Ok(()) };
        let body = if self.dice.random_bool(0.3) {
            let version = *["1.0.0", "1.1.0"].choose(&mut self.dice).expect("not empty");
            UpdateDeployment { version: Some(version.to_owned()), ..UpdateDeployment::default() }
        } else {
            UpdateDeployment { values: self.values(), ..UpdateDeployment::default() }
        };
        let if_match = self.dice.random_bool(0.5).then_some(chosen.revision);
        let rollout = self.api.update_deployment(&chosen.id, &body, if_match).await?;
        self.stage.ledger().rollouts.push((rollout.id, Some(chosen.id.clone())));
        Ok(())
    }

    async fn remove(&mut self, present: &[Deployment]) -> Done {
        let Some(chosen) = present.choose(&mut self.dice) else { return Ok(()) };
        let rollout = self.api.remove_deployment(&chosen.id, Some("the kill loop"), None).await?;
        self.stage.ledger().rollouts.push((rollout.id, Some(chosen.id.clone())));
        Ok(())
    }

    fn values(&mut self) -> IndexMap<String, serde_json::Value> {
        let mode = format!("mode-{}", self.dice.random_range(0..1000));
        IndexMap::from([("mode".to_owned(), mode.into())])
    }

    async fn label(&mut self) -> Done {
        self.count += 1;
        let Some(DeviceRef { client, device }) = self.devices.choose(&mut self.dice).cloned() else { return Ok(()) };
        let (label, value) = (format!("kill.example/n{}", self.count), self.count.to_string());
        let labels = IndexMap::from([(label.clone(), Some(value.clone()))]);
        self.api.update_device(&client, &device, &UpdateDevice { labels, comment: None }, None).await?;
        self.stage.ledger().labels.push((client, device, label, value));
        Ok(())
    }

    async fn token(&mut self) -> Done {
        if self.stage.ledger().tokens.len() >= EXTRAS_MAX {
            return Ok(());
        }
        self.count += 1;
        let body = CreateToken { name: format!("token-{}", self.count), valid_for_seconds: None, comment: None };
        let token = self.api.create_token(&body).await?;
        let secret = token.secret.expect("the response that creates a token contains its secret");
        self.stage.ledger().tokens.push((token.id, secret));
        Ok(())
    }

    async fn group(&mut self) -> Done {
        if self.stage.ledger().groups.len() >= EXTRAS_MAX {
            return Ok(());
        }
        self.count += 1;
        let (name, selector) = (format!("group-{}", self.count), format!("kill.example/n{}", self.count));
        let body = PutGroup { selector: selector.clone(), description: None, comment: None };
        self.api.put_group(&name, &body, None).await?;
        self.stage.ledger().groups.push((name, selector));
        Ok(())
    }
}
