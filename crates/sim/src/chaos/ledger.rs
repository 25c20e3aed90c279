//! Everything the server acknowledged with 2xx, and what may have happened without an acknowledgment.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Rollouts by id; with the deployment, if the rollout was for one.
    pub rollouts: Vec<(String, Option<String>)>,
    /// (client, device, label, value); every label is set once.
    pub labels: Vec<(String, String, String, String)>,
    /// (id, secret)
    pub tokens: Vec<(String, String)>,
    /// (name, selector)
    pub groups: Vec<(String, String)>,
    /// Capability reports of a device, numbered.
    pub capabilities: BTreeMap<String, ReportSeries>,
    /// Status reports of a deployment, numbered.
    pub statuses: BTreeMap<String, ReportSeries>,
    /// Responses that are neither a success nor a client error.
    pub server_errors: Vec<String>,
}

/// A series whose newest acknowledged member, or a later one that was sent, must be stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportSeries {
    pub acknowledged: Option<u64>,
    pub tried: u64,
}

impl ReportSeries {
    /// The number of the next member.
    pub fn count_up(&mut self) -> u64 {
        self.tried += 1;
        self.tried
    }

    pub fn allows(&self, found: Option<u64>) -> bool {
        match (self.acknowledged, found) {
            (None, None) => true,
            (None, Some(found)) => found <= self.tried,
            (Some(acknowledged), Some(found)) => (acknowledged..=self.tried).contains(&found),
            (Some(_), None) => false,
        }
    }
}

impl Ledger {
    /// Number of acknowledged operations.
    pub fn len(&self) -> usize {
        let numbered = self.capabilities.values().chain(self.statuses.values());
        let acknowledged = numbered.filter(|numbered| numbered.acknowledged.is_some()).count();
        self.rollouts.len() + self.labels.len() + self.tokens.len() + self.groups.len() + acknowledged
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::ReportSeries;

    #[test]
    fn a_series_may_be_ahead_of_what_was_acknowledged_and_never_behind() {
        let series = ReportSeries { acknowledged: Some(3), tried: 5 };
        for (found, allowed) in [(None, false), (Some(2), false), (Some(3), true), (Some(5), true), (Some(6), false)] {
            assert_eq!(series.allows(found), allowed, "{found:?}");
        }
        assert!(ReportSeries::default().allows(None));
    }
}
