//! The last state of targets that no longer belong to their rollout: taken over by a later one, or deleted after
//! removal.
//! Stored as counts: a rollout may target a whole fleet, and so may the next one.

use crate::batched::StatementBatch;
use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::status::State;
use margrave_core::deployment_state::{DeploymentState, LastReport, state_from_last_report};
use margrave_core::model::Deployment;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Targets by their rollout and state; ordered, so that two transactions that add to the same rows never deadlock.
#[derive(Default)]
pub(crate) struct RolloutOutcomes(BTreeMap<(Uuid, &'static str), i64>);

impl RolloutOutcomes {
    pub(crate) fn add(&mut self, rollout: Uuid, deployment_state: DeploymentState) {
        *self.0.entry((rollout, deployment_state.as_str())).or_default() += 1;
    }

    /// A pruned rollout is no longer counted.
    pub(crate) fn add_to_batch(self, statements: &mut StatementBatch<'_>) {
        for ((rollout, deployment_state), targets) in self.0 {
            let text = |first| {
                format!(
                    "INSERT INTO rollout_outcomes (rollout_id, state, targets)
                     SELECT id, ${first}, ${} FROM rollouts WHERE id = ${}
                     ON CONFLICT (rollout_id, state) DO UPDATE SET targets = rollout_outcomes.targets + excluded.targets",
                    first + 1,
                    first + 2
                )
            };
            statements.add(3, text, move |statement| {
                statement.bind(deployment_state).bind(targets).bind(rollout.to_string())
            });
        }
    }
}

/// The state of a deployment by its row, with `state`, `adopted_version` and `failed_version` of its status in it.
pub(crate) fn read_state_from_last_report(row: Columns<'_>, deployment: &Deployment) -> Result<DeploymentState> {
    let reported = match row.text_maybe("state")? {
        Some(_) => Some(LastReport {
            state: row.named("state", State::parse)?,
            adopted_version: row.unsigned("adopted_version")?,
            failed_version: row.number_maybe("failed_version")?.map(|_| row.unsigned("failed_version")).transpose()?,
        }),
        None => None,
    };
    Ok(state_from_last_report(deployment, reported))
}

impl Store {
    pub(super) async fn rollout_past_outcomes(&self, rollout: Uuid) -> Result<BTreeMap<DeploymentState, u64>> {
        let rows = sqlx::query("SELECT state, targets FROM rollout_outcomes WHERE rollout_id = $1")
            .bind(rollout.to_string())
            .fetch_all(&self.read)
            .await
            .during("read the outcomes of a rollout")?;
        let read = |row| {
            let row = Columns::of("rollout_outcomes", row);
            Ok((row.named("state", DeploymentState::parse)?, row.unsigned("targets")?))
        };
        rows.iter().map(read).collect()
    }
}
