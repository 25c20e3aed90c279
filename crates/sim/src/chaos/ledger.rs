//! Every promise the server made: what was answered with 2xx, and what may have happened besides.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Changes by id; with the deployment, where the change was for one.
    pub changes: Vec<(String, Option<String>)>,
    /// (client, device, label, value); every label is set once.
    pub labels: Vec<(String, String, String, String)>,
    /// (id, secret)
    pub tokens: Vec<(String, String)>,
    /// (name, selector)
    pub groups: Vec<(String, String)>,
    /// Reports of a device about itself, numbered.
    pub capabilities: BTreeMap<String, Numbered>,
    /// Reports about a deployment, numbered.
    pub statuses: BTreeMap<String, Numbered>,
    /// Answers that are neither a success nor the caller's mistake.
    pub server_errors: Vec<String>,
}

/// A series of which the newest acknowledged member, or a later one that was sent, must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbered {
    pub acknowledged: Option<u64>,
    pub tried: u64,
}

impl Numbered {
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
    /// How many promises there are.
    pub fn len(&self) -> usize {
        let numbered = self.capabilities.values().chain(self.statuses.values());
        let acknowledged = numbered.filter(|numbered| numbered.acknowledged.is_some()).count();
        self.changes.len() + self.labels.len() + self.tokens.len() + self.groups.len() + acknowledged
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Numbered;

    #[test]
    fn a_series_may_be_ahead_of_what_was_acknowledged_and_never_behind() {
        let series = Numbered { acknowledged: Some(3), tried: 5 };
        for (found, allowed) in [(None, false), (Some(2), false), (Some(3), true), (Some(5), true), (Some(6), false)] {
            assert_eq!(series.allows(found), allowed, "{found:?}");
        }
        assert!(Numbered::default().allows(None));
    }
}
