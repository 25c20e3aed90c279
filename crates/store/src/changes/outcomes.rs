//! What became of targets that are no longer their change's: taken over by a later change, or forgotten after their removal.
//! Kept as counts: a change may reach a whole fleet, and so may the next one.

use crate::error::During;
use crate::many::Pile;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::status::State;
use margrave_core::convergence::{Convergence, Word, last_word};
use margrave_core::model::Deployment;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Targets by their change and how far they were; in order, so that two who add to the same never wait for each other crosswise.
#[derive(Default)]
pub(crate) struct Outcomes(BTreeMap<(Uuid, &'static str), i64>);

impl Outcomes {
    pub(crate) fn add(&mut self, change: Uuid, convergence: Convergence) {
        *self.0.entry((change, convergence.as_str())).or_default() += 1;
    }

    /// A change that was pruned is not counted any more.
    pub(crate) fn pile(self, pile: &mut Pile<'_>) {
        for ((change, convergence), targets) in self.0 {
            let text = |first| {
                format!(
                    "INSERT INTO change_outcomes (change_id, convergence, targets)
                     SELECT id, ${first}, ${} FROM changes WHERE id = ${}
                     ON CONFLICT (change_id, convergence) DO UPDATE SET targets = change_outcomes.targets + excluded.targets",
                    first + 1,
                    first + 2
                )
            };
            pile.add(3, text, move |statement| statement.bind(convergence).bind(targets).bind(change.to_string()));
        }
    }
}

/// How far a deployment is by its row, with `state`, `adopted_version` and `failed_version` of its status beside it.
pub(crate) fn read_last_word(row: Columns<'_>, deployment: &Deployment) -> Result<Convergence> {
    let reported = match row.text_maybe("state")? {
        Some(_) => Some(Word {
            state: row.named("state", State::parse)?,
            adopted_version: row.unsigned("adopted_version")?,
            failed_version: row.number_maybe("failed_version")?.map(|_| row.unsigned("failed_version")).transpose()?,
        }),
        None => None,
    };
    Ok(last_word(deployment, reported))
}

impl Store {
    pub(super) async fn change_past(&self, change: Uuid) -> Result<BTreeMap<Convergence, u64>> {
        let rows = sqlx::query("SELECT convergence, targets FROM change_outcomes WHERE change_id = $1")
            .bind(change.to_string())
            .fetch_all(&self.read)
            .await
            .during("read what became of a change")?;
        let read = |row| {
            let row = Columns::of("change_outcomes", row);
            Ok((row.named("convergence", Convergence::parse)?, row.unsigned("targets")?))
        };
        rows.iter().map(read).collect()
    }
}
