//! The order of a list: a column and a direction, written `last-seen`, or `-last-seen` for descending.

use crate::deployment_state::DeploymentState;
use crate::model::DeviceState;
use std::fmt;

#[cfg(test)]
mod tests;

/// The label with the site of a device.
pub const SITE_LABEL: &str = "site";

/// The columns of one kind of list.
pub trait Column: Copy + Eq + fmt::Debug + 'static {
    const ALL: &'static [Self];

    /// The name in addresses, in the API and on the command line.
    fn as_str(self) -> &'static str;

    /// What its values are.
    fn values(self) -> Values;
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    Texts,
    Numbers,
}

/// A value of a column, where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortValue {
    Text(String),
    Number(i64),
}

impl SortValue {
    pub fn is_of(&self, values: Values) -> bool {
        matches!((self, values), (Self::Text(_), Values::Texts) | (Self::Number(_), Values::Numbers))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort<C> {
    pub column: C,
    pub descending: bool,
}

impl<C: Column> Sort<C> {
    /// `None` for an unknown column.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let column = C::ALL.iter().copied().find(|column| column.as_str() == name)?;
        Some(Self { column, descending })
    }

    /// The names of all columns, for an error message.
    pub fn names() -> String {
        C::ALL.iter().map(|column| format!("`{}`", column.as_str())).collect::<Vec<_>>().join(", ")
    }
}

impl<C: Column> fmt::Display for Sort<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.descending { "-" } else { "" }, self.column.as_str())
    }
}

macro_rules! columns {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal: $values:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($variant),+
        }

        impl Column for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            fn values(self) -> Values {
                match self {
                    $(Self::$variant => Values::$values),+
                }
            }
        }
    };
}

columns! {
    /// Devices; `state` is the position of [`device_severity`].
    DeviceColumn { Device = "device": Texts, State = "state": Numbers, Site = "site": Texts, LastSeen = "last-seen": Numbers }
}

columns! {
    /// Deployments; `state` is the position of [`deployment_severity`].
    DeploymentColumn {
        Application = "application": Texts,
        Device = "device": Texts,
        State = "state": Numbers,
        LastReport = "last-report": Numbers,
    }
}

columns! {
    ClientColumn { Id = "id": Texts, State = "state": Texts, Registered = "registered": Numbers, LastSeen = "last-seen": Numbers }
}

columns! {
    RolloutColumn { Application = "application": Texts, Started = "started": Numbers }
}

/// The position of a state in a list by state: what needs attention first.
pub fn device_severity(state: DeviceState) -> i64 {
    match state {
        DeviceState::Failed => 0,
        DeviceState::Degraded => 1,
        DeviceState::Blocked => 2,
        DeviceState::Offline => 3,
        DeviceState::Updating => 4,
        DeviceState::Online => 5,
    }
}

/// The position of a state in a list by state: what needs attention first.
pub fn deployment_severity(state: DeploymentState) -> i64 {
    match state {
        DeploymentState::Failed => 0,
        DeploymentState::DeviceOffline => 1,
        DeploymentState::Outdated => 2,
        DeploymentState::Pending => 3,
        DeploymentState::Updating => 4,
        DeploymentState::Removing => 5,
        DeploymentState::UpToDate => 6,
        DeploymentState::Removed => 7,
    }
}
