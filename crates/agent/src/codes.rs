//! Every error code this agent uses. They are stable: a number never changes its meaning.
//!
//! 1xx are reserved by the standard for gateways (ST-08); the rest is ours. `docs/errors.md` explains each one.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $title:literal;)*) => {
        /// A stable error code. Shown in status reports, logs, `status` and `explain`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as it is sent.
            pub fn number(self) -> &'static str {
                match self {
                    $(Self::$name => $number,)*
                }
            }

            /// What it means, in a few words.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

codes! {
    /// ST-08
    UnknownChild = "101", "unknown child device id";
    /// ST-08
    ChildUnreachable = "102", "child device unreachable";
    /// ST-08
    NoAutonomousPlacement = "103", "no child device can take the deployment";

    DocumentUnreadable = "201", "deployment document cannot be read";
    DocumentOtherId = "202", "deployment document names another deployment";
    TypeUnsupported = "203", "device does not support the deployment type";
    CapacityMissing = "204", "device is too small";
    NotEligible = "205", "device does not meet the eligibility rules";
    UnknownDevice = "206", "deployment is for a device that is not managed here";
    NoRuntime = "207", "no runtime is enabled";

    ComponentFailed = "301", "component could not be applied";
    ComponentTimeout = "302", "component took longer than its timeout";
    ComponentExited = "303", "component stopped with an error";
    RemoveFailed = "304", "workload could not be removed";
    RuntimeUnavailable = "305", "container runtime does not respond";

    Drifted = "401", "workload differs from what was applied";
    HeldByTechnician = "402", "a technician holds changes on the device";
    RolledBack = "403", "revision was rolled back to an earlier one";

    ManifestOlder = "601", "manifest is older than the accepted one";
    ManifestConflict = "602", "manifest has the accepted version with other content";
    ManifestUnreadable = "603", "manifest cannot be read";
    DigestAlgorithmUnknown = "604", "manifest uses an unknown digest algorithm";
    DigestMismatch = "605", "artifact does not have the digest the manifest names";
    BundleDamaged = "606", "bundle cannot be unpacked";
    BundleExtraFile = "607", "bundle contains a file the manifest does not name";
    BundleMissingFile = "608", "bundle lacks a file the manifest names";
    ArtifactNotFound = "609", "server does not have an artifact of its own manifest";
    ManifestTooLarge = "610", "manifest names more deployments than the agent allows";
    PreloadRefused = "611", "preloaded desired state was rejected";

    ServerUnreachable = "701", "server cannot be reached";
    ServerNotTrusted = "702", "server could not prove its identity";
    NotAuthorized = "703", "server does not accept this client";
    ServerBusy = "704", "server asks to retry later";
    ServerError = "705", "server returned an error";
    CapabilitiesRefused = "706", "server rejected a capability report";
    StatusRefused = "707", "server rejected a status report";
    AnswerTooLarge = "708", "response is larger than the agent allows";
    AnswerUnexpected = "709", "server response violates the protocol";
    IdentityUnusable = "710", "identity of this client cannot be used";
    TrustBundleRefused = "711", "trust bundle was refused";
    EnrollmentRefused = "712", "enrollment was refused";

    DiskFull = "801", "no disk space left for the agent's state";
    WriteFailed = "802", "state could not be written";
    RecordUnreadable = "803", "a state file cannot be read";
    StateLocked = "804", "another agent uses the state folder";
    CapabilitiesUnreadable = "805", "capabilities file cannot be used";
}

impl Code {
    pub fn parse(number: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }

    /// Possible attacks on the desired state: logged as security events (DS-10, DS-23).
    pub fn is_security(self) -> bool {
        matches!(
            self,
            Self::ManifestOlder
                | Self::ManifestConflict
                | Self::DigestMismatch
                | Self::DigestAlgorithmUnknown
                | Self::BundleExtraFile
                | Self::BundleMissingFile
                | Self::BundleDamaged
                | Self::PreloadRefused
                | Self::ServerNotTrusted
                | Self::TrustBundleRefused
        )
    }

    /// Errors of the gateway itself carry its id as source (ST-07, ST-08).
    pub fn is_gateway(self) -> bool {
        matches!(self, Self::UnknownChild | Self::ChildUnreachable | Self::NoAutonomousPlacement)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.number())
    }
}

impl<'de> serde::Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&number).ok_or_else(|| serde::de::Error::custom(format!("`{number}` is not a code")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRORS: &str = include_str!("../../../docs/errors.md");

    #[test]
    fn every_code_is_documented_with_meaning_cause_and_next_action() {
        for code in Code::ALL {
            let heading = format!("\n## {} ", code.number());
            let section = ERRORS.split(&heading).nth(1).unwrap_or_else(|| panic!("docs/errors.md lacks code {code}"));
            let section = section.split("\n## ").next().unwrap();
            assert!(section.starts_with(code.title()), "docs/errors.md calls {code} otherwise than the code");
            for part in ["Meaning:", "Cause:", "Next action:"] {
                assert!(section.contains(part), "docs/errors.md lacks `{part}` for {code}");
            }
        }
    }

    #[test]
    fn every_documented_code_exists() {
        for heading in ERRORS.lines().filter_map(|line| line.strip_prefix("## ")) {
            let number = heading.split(' ').next().unwrap();
            assert!(Code::parse(number).is_some(), "docs/errors.md explains {number}, which the agent never uses");
        }
    }

    #[test]
    fn gateway_codes_are_those_the_standard_reserves() {
        // ST-08
        let reserved: Vec<_> = Code::ALL.iter().filter(|code| code.is_gateway()).map(|code| code.number()).collect();
        assert_eq!(reserved, ["101", "102", "103"]);
    }

    #[test]
    fn no_number_is_used_twice() {
        let mut numbers: Vec<_> = Code::ALL.iter().map(|code| code.number()).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), Code::ALL.len());
    }
}
