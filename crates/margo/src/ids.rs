//! Identifiers of the standard as types, each with its grammar.

use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {what}: {rule}")]
pub struct IdError {
    pub what: &'static str,
    /// The offending text, cut to fit a message.
    pub text: String,
    pub rule: &'static str,
}

/// The longest device id accepted: a path of a few segments, far above what is used in practice.
pub const DEVICE_ID_CHARS_MAX: usize = 512;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError { what: $what, text: text.chars().take(80).collect(), rule: $rule })
                }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

fn is_segment(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'-'))
}

text_id!(
    /// `id` of an ApplicationDescription.
    ApplicationId,
    "application id",
    "1 to 200 lower-case letters, digits and dashes",
    |text| (1..=200).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
);

text_id!(
    /// A device as its client names it; segments after the first are children of a gateway (CAP-04).
    DeviceId,
    "device id",
    "segments of letters, digits, `.`, `_`, `~`, `-`, separated by `/`",
    |text| text.len() <= DEVICE_ID_CHARS_MAX && text.split('/').all(is_segment)
);

text_id!(
    /// The target of a deployment: a device id, or one that ends in `/*`: the gateway selects the device (GW-04).
    DeviceTarget,
    "target device",
    "a device id, which may end in `/*`",
    |text| text.len() <= DEVICE_ID_CHARS_MAX && text.strip_suffix("/*").unwrap_or(text).split('/').all(is_segment)
);

text_id!(
    /// The last segment of a WFM client's SPIFFE ID (WID-01).
    ClientId,
    "client id",
    "1 to 200 letters, digits, `.`, `-`, `_`, not `.` or `..`",
    |text| (1..=200).contains(&text.len())
        && text != "."
        && text != ".."
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
);

impl DeviceId {
    /// The gateway one level up, for a child device.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }
    #[must_use]
    pub fn root(&self) -> Self {
        Self(self.0.split('/').next().unwrap_or_default().to_owned())
    }
}

impl DeviceTarget {
    /// The device, unless the gateway selects one.
    pub fn device(&self) -> Option<DeviceId> {
        (!self.is_autonomous()).then(|| DeviceId(self.0.clone()))
    }
    /// The gateway of an autonomous target `gw/*`.
    pub fn gateway(&self) -> Option<DeviceId> {
        self.0.strip_suffix("/*").map(|gateway| DeviceId(gateway.to_owned()))
    }
    pub fn is_autonomous(&self) -> bool {
        self.0.ends_with("/*")
    }
}

impl From<&DeviceId> for DeviceTarget {
    fn from(id: &DeviceId) -> Self {
        Self(id.0.clone())
    }
}

/// Identifies one deployment for its whole life (DEP-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct DeploymentId(pub uuid::Uuid);

impl FromStr for DeploymentId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        // Only the hyphenated form: the standard's pattern allows no braces, URNs or bare digits.
        (text.len() == 36).then(|| uuid::Uuid::try_parse(text).ok()).flatten().map(Self).ok_or_else(|| IdError {
            what: "deployment id",
            text: text.chars().take(80).collect(),
            rule: "a UUID such as a3e2f5dc-912e-494f-8395-52cf3769bc06",
        })
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> serde::Deserialize<'de> for DeploymentId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn device_ids_are_paths_of_unreserved_characters() {
        // CAP-04
        for text in ["a", "A.b_c~d-e", "gw/child", "gw/line-2/child"] {
            assert_eq!(text.parse::<DeviceId>().unwrap().as_str(), text);
        }
        for text in ["", "/", "a/", "/a", "a//b", "a b", "ä", "a/*", "*", "a%2Fb"] {
            assert!(text.parse::<DeviceId>().is_err(), "{text}");
        }
        assert!("a".repeat(DEVICE_ID_CHARS_MAX + 1).parse::<DeviceId>().is_err());
    }

    #[test]
    fn a_child_knows_its_gateways() {
        // GW-02
        let child: DeviceId = "gw/line/child".parse().unwrap();
        assert_eq!(child.parent().unwrap().as_str(), "gw/line");
        assert_eq!(child.root().as_str(), "gw");
        assert_eq!(child.root().parent(), None);
    }

    #[test]
    fn a_target_may_let_the_gateway_select_the_device() {
        // GW-04
        let autonomous: DeviceTarget = "gw/line/*".parse().unwrap();
        assert_eq!(autonomous.gateway().unwrap().as_str(), "gw/line");
        assert_eq!(autonomous.device(), None);
        let directed: DeviceTarget = "gw/child".parse().unwrap();
        assert_eq!(directed.device().unwrap().as_str(), "gw/child");
        for text in ["*", "/*", "gw/*/*", "gw/*/a", "gw*"] {
            assert!(text.parse::<DeviceTarget>().is_err(), "{text}");
        }
    }

    #[test]
    fn deployment_ids_are_hyphenated_uuids_of_any_case() {
        // W-05
        let id: DeploymentId = "A3E2F5DC-912e-494f-8395-52cf3769bc06".parse().unwrap();
        assert_eq!(id.to_string(), "a3e2f5dc-912e-494f-8395-52cf3769bc06");
        for text in ["", "a3e2f5dc912e494f839552cf3769bc06", "{a3e2f5dc-912e-494f-8395-52cf3769bc06}", "not-a-uuid"] {
            assert!(text.parse::<DeploymentId>().is_err(), "{text}");
        }
    }

    #[test]
    fn application_and_client_ids_follow_their_patterns() {
        // WID-01
        assert!("a-1".parse::<ApplicationId>().is_ok());
        for text in ["", "A", "a_b", "a.b", &"a".repeat(201)] {
            assert!(text.parse::<ApplicationId>().is_err(), "{text}");
        }
        assert!("Kiln_3.a-b".parse::<ClientId>().is_ok());
        for text in ["", ".", "..", "a/b", "a~b", "a b"] {
            assert!(text.parse::<ClientId>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_ids_read_back(
            application in "[a-z0-9-]{1,200}",
            device in "[A-Za-z0-9._~-]{1,9}(/[A-Za-z0-9._~-]{1,9}){0,3}",
            client in "[A-Za-z0-9_-]{1,60}",
            number in any::<u128>(),
        ) {
            prop_assert_eq!(application.parse::<ApplicationId>().unwrap().to_string(), application);
            prop_assert_eq!(client.parse::<ClientId>().unwrap().to_string(), client);
            let target = format!("{device}/*");
            prop_assert_eq!(target.parse::<DeviceTarget>().unwrap().to_string(), target);
            prop_assert_eq!(device.parse::<DeviceId>().unwrap().to_string(), device);
            let id = DeploymentId(uuid::Uuid::from_u128(number));
            prop_assert_eq!(id.to_string().parse::<DeploymentId>().unwrap(), id);
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<DeploymentId>(&json).unwrap(), id);
        }
    }
}
