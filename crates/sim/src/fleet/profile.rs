//! Fleet profiles, which define the devices and their behavior: a TOML file or a built-in profile.

use margrave_agent::config::duration;
use margrave_agent::runtimes::simulated::script::{Fail, Rule, Script};
use margrave_core::settings::{self, Problem};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Every setting of a profile with comments; also the default profile.
pub const STEADY: &str = include_str!("profiles/steady.toml");
const FLAKY: &str = include_str!("profiles/flaky.toml");
const PLANT: &str = include_str!("profiles/plant.toml");

/// The built-in profiles by name.
pub const BUILT_IN: [(&str, &str); 3] = [("steady", STEADY), ("flaky", FLAKY), ("plant", PLANT)];

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    pub work: Work,
    pub offline: Offline,
    pub failures: Vec<Failure>,
    pub kinds: Vec<Kind>,
}

/// Installation time of components; random per device between the two values.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Work {
    pub delay: Time,
    pub delay_max: Time,
    pub remove_delay: Time,
}

/// Offline periods.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offline {
    /// Share of the devices that have offline periods.
    pub share: f64,
    pub first_within: Time,
    pub length: Time,
    pub length_max: Time,
    /// Time between two offline periods; none for a single one.
    pub every: Time,
    /// The agent also loses power and restarts from its disk.
    pub restart: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Share of the affected devices.
    pub share: f64,
    pub component: Option<String>,
    pub application: Option<String>,
    /// How many times, or "always".
    pub times: Fail,
    pub message: Option<String>,
}

/// A kind of device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    /// Relative frequency compared with other kinds.
    #[serde(default = "one")]
    pub weight: u32,
    pub architecture: String,
    pub cores: f64,
    pub memory: String,
    pub storage: String,
    #[serde(default = "oci")]
    pub runtimes: Vec<String>,
    pub deployment_types: Vec<String>,
    #[serde(default)]
    pub interfaces: Vec<String>,
    #[serde(default)]
    pub peripherals: Vec<String>,
    /// Each device gets a random one of the values.
    #[serde(default)]
    pub labels: BTreeMap<String, Vec<String>>,
}

fn one() -> u32 {
    1
}

fn oci() -> Vec<String> {
    vec!["oci".to_owned()]
}

/// A duration such as `5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration::parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// The random properties of one device.
#[derive(Debug, Clone)]
pub struct DeviceTraits {
    pub script: Script,
    /// Index into the kinds.
    kind: usize,
    labels: Vec<(String, String)>,
    pub spells: Option<OfflinePeriods>,
    /// Whether it is configured to fail always: then `failed` is an expected result.
    pub fails_always: bool,
    pub rng: StdRng,
}

/// Offline periods of a device, relative to its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfflinePeriods {
    pub first: Duration,
    pub length: Duration,
    pub every: Duration,
    pub restart: bool,
}

impl OfflinePeriods {
    /// Whether it is offline at this time, and when that changes next.
    pub fn at(&self, since_start: Duration) -> (bool, Option<Duration>) {
        let Some(since_first) = since_start.checked_sub(self.first) else { return (false, Some(self.first)) };
        if self.every.is_zero() {
            let end = self.first + self.length;
            return if since_start < end { (true, Some(end)) } else { (false, None) };
        }
        let round = self.length + self.every;
        let rounds = since_first.as_nanos() / round.as_nanos().max(1);
        let begin = self.first + round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        let end = begin + self.length;
        if since_start < end { (true, Some(end)) } else { (false, Some(end + self.every)) }
    }
}

impl Profile {
    pub fn built_in(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Parses a profile; returns all problems at once.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let known = [
            "work.delay",
            "work.delay_max",
            "work.remove_delay",
            "offline.share",
            "offline.first_within",
            "offline.length",
            "offline.length_max",
            "offline.every",
            "offline.restart",
            "failures",
            "kinds",
        ];
        let reading = settings::read::<Self>(text, &known.map(str::to_owned));
        let mut problems = reading.problems;
        if let Some(profile) = &reading.settings {
            for (key, text) in profile.odd() {
                problems.push(Problem { place: reading.places.get(&key).copied(), key, text });
            }
        }
        match reading.settings {
            Some(profile) if problems.is_empty() => Ok(profile),
            _ => Err(problems),
        }
    }

    fn odd(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let share = |key: String, share: f64, found: &mut Vec<_>| {
            if !(0.0..=1.0).contains(&share) {
                found.push((key, "must be a share between 0.0 and 1.0".to_owned()));
            }
        };
        share("offline.share".to_owned(), self.offline.share, &mut found);
        for (index, failure) in self.failures.iter().enumerate() {
            share(format!("failures[{index}].share"), failure.share, &mut found);
        }
        if self.offline.share > 0.0 && self.offline.length.0.is_zero() {
            found.push(("offline.length".to_owned(), "must be greater than zero".to_owned()));
        }
        if self.kinds.iter().map(|kind| u64::from(kind.weight)).sum::<u64>() == 0 {
            found.push(("kinds".to_owned(), "must have at least one kind with a weight".to_owned()));
        }
        for (index, kind) in self.kinds.iter().enumerate() {
            if let Some((name, _)) = kind.labels.iter().find(|(_, values)| values.is_empty()) {
                found.push((format!("kinds[{index}].labels.{name}"), "must have at least one value".to_owned()));
            }
            let report = kind.report("a-00001", "a", &[]);
            let read = margo::capabilities::DeviceCapabilities::read(
                report.to_string().as_bytes(),
                margo::capabilities::UnknownTypes::Refuse,
            );
            if let Err(findings) = read {
                found.push((format!("kinds[{index}]"), format!("invalid device capabilities: {findings}")));
            }
        }
        found
    }

    /// Derives a device from seed and number.
    pub fn draw(&self, seed: u64, index: usize) -> DeviceTraits {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64));
        let total: u32 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut ticket = rng.random_range(0..total.max(1));
        let kind = self
            .kinds
            .iter()
            .position(|kind| {
                let hit = ticket < kind.weight;
                ticket = ticket.saturating_sub(kind.weight);
                hit
            })
            .unwrap_or(0);
        let labels = self.kinds[kind].labels.iter();
        let labels = labels.map(|(name, values)| (name.clone(), values[rng.random_range(0..values.len())].clone()));
        let labels = labels.collect();
        let work = &self.work;
        let mut script = Script {
            delay: between(work.delay, work.delay_max, &mut rng),
            remove_delay: work.remove_delay.0,
            ..Script::default()
        };
        let mut fails_always = false;
        for failure in &self.failures {
            if rng.random_bool(failure.share) {
                fails_always |= matches!(failure.times, Fail::Word(_));
                script.rule.push(Rule {
                    component: failure.component.clone(),
                    application: failure.application.clone(),
                    fail: Some(failure.times.clone()),
                    message: failure.message.clone(),
                    ..Rule::default()
                });
            }
        }
        let offline = &self.offline;
        let spells = rng.random_bool(offline.share).then(|| OfflinePeriods {
            first: between(Time::default(), offline.first_within, &mut rng),
            length: between(offline.length, offline.length_max, &mut rng),
            every: offline.every.0,
            restart: offline.restart,
        });
        DeviceTraits { script, kind, labels, spells, fails_always, rng }
    }

    /// The capabilities of a device.
    pub fn report(&self, character: &DeviceTraits, id: &str, prefix: &str) -> Value {
        self.kinds[character.kind].report(id, prefix, &character.labels)
    }
}

impl Kind {
    fn report(&self, id: &str, prefix: &str, labels: &[(String, String)]) -> Value {
        let typed = |names: &[String]| names.iter().map(|name| json!({ "type": name })).collect::<Vec<_>>();
        let mut all = Map::new();
        all.insert("simulation".to_owned(), prefix.into());
        all.insert("kind".to_owned(), self.name.clone().into());
        all.extend(labels.iter().map(|(name, value)| (name.clone(), value.clone().into())));
        // Like an agent with the simulated runtime.
        let (extension, simulated) = margrave_core::runtime::simulated_announcement();
        json!({
            "properties": {
                "id": id,
                "vendor": "Margrave simulator",
                "modelNumber": self.name,
                "serialNumber": id,
                "cpus": [{ "cores": self.cores, "architecture": self.architecture }],
                "memory": self.memory,
                "storage": self.storage,
                "peripherals": typed(&self.peripherals),
                "interfaces": typed(&self.interfaces),
                "otelCollector": true,
                "supportedRuntimes": self.runtimes,
                "supportedDeploymentTypes": self.deployment_types,
            },
            "labels": all,
            extension: simulated,
        })
    }
}

fn between(least: Time, most: Time, rng: &mut StdRng) -> Duration {
    least.0 + most.0.saturating_sub(least.0).mul_f64(rng.random::<f64>())
}

#[cfg(test)]
mod tests;
