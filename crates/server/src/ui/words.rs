//! How pages show states, times and sizes.

pub(super) mod actions;

use super::markup::{Markup, escape, state};
use margrave_api::access::TokenState;
use margrave_api::clients::EnrollmentTokenState;
use margrave_api::deployments::DeploymentState;
use margrave_api::devices::DeviceState;
use margrave_core::time::Timestamp;
use std::collections::HashMap;
use uuid::Uuid;

/// Label, tone and icon of a state.
pub(super) struct Badge {
    /// The API value.
    pub(super) key: &'static str,
    pub(super) word: &'static str,
    pub(super) tone: &'static str,
    pub(super) symbol: &'static str,
}

pub(super) fn device_badge(device: DeviceState) -> Badge {
    let (word, tone, symbol) = match device {
        DeviceState::Blocked => ("Blocked", "mute", "lock"),
        DeviceState::Failed => ("Failed", "bad", "cross"),
        DeviceState::Degraded => ("Degraded", "bad", "warn"),
        DeviceState::Offline => ("Offline", "warn", "unplugged"),
        DeviceState::Updating => ("Updating", "busy", "turning"),
        DeviceState::Online => ("Online", "good", "check"),
    };
    Badge { key: device.as_str(), word, tone, symbol }
}

pub(super) fn token_state(token: TokenState) -> Markup {
    let (tone, symbol, word) = match token {
        TokenState::Active => ("good", "check", "Active"),
        TokenState::Expired => ("mute", "clock", "Expired"),
        TokenState::Revoked => ("mute", "lock", "Revoked"),
    };
    state(token.as_str(), tone, symbol, word)
}

pub(super) fn enrollment_token_state(token: EnrollmentTokenState) -> Markup {
    let (tone, symbol, word) = match token {
        EnrollmentTokenState::Active => ("busy", "clock", "Active"),
        EnrollmentTokenState::Used => ("good", "check", "Used"),
        EnrollmentTokenState::Expired => ("mute", "clock", "Expired"),
    };
    state(token.as_str(), tone, symbol, word)
}

pub(super) fn device_state(device: DeviceState) -> Markup {
    device_badge(device).into()
}

pub(super) fn deployment_state_badge(deployment_state: DeploymentState) -> Badge {
    let (word, tone, symbol) = match deployment_state {
        DeploymentState::UpToDate => ("Up to date", "good", "check"),
        DeploymentState::Updating => ("Updating", "busy", "turning"),
        DeploymentState::Failed => ("Failed", "bad", "cross"),
        DeploymentState::Outdated => ("Outdated", "busy", "history"),
        DeploymentState::Pending => ("Pending", "idle", "clock"),
        DeploymentState::DeviceOffline => ("Device offline", "warn", "unplugged"),
        DeploymentState::Removing => ("Removing", "busy", "turning"),
        DeploymentState::Removed => ("Removed", "mute", "check"),
    };
    Badge { key: deployment_state.as_str(), word, tone, symbol }
}

impl From<Badge> for Markup {
    fn from(Badge { key, word, tone, symbol }: Badge) -> Self {
        state(key, tone, symbol, word)
    }
}

/// The API value of an enumeration, as it is in JSON.
pub(super) fn api_value(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Marks a device whose agent uses the simulated runtime.
pub(super) fn simulated() -> Markup {
    state("simulated", "mute", "simulated", "Simulated")
}

/// The same in a row of a table, as an icon with the word as its title.
pub(super) fn simulated_icon() -> Markup {
    Markup::trusted(format!(
        "<span class=\"state tone-mute\" data-state=\"simulated\" title=\"Simulated\">{}<span class=\"unseen\">Simulated</span></span>",
        super::markup::icon("simulated")
    ))
}

/// The state that a device reports for a deployment or component, in the words of the standard.
pub(super) fn reported(word: &str) -> Markup {
    let (tone, symbol) = match word {
        "installed" => ("good", "check"),
        "failed" => ("bad", "cross"),
        "installing" | "removing" => ("busy", "turning"),
        "removed" => ("mute", "check"),
        _ => ("idle", "clock"),
    };
    state(word, tone, symbol, &capital(word))
}

/// The same, for a device that may not have reported yet.
pub(super) fn reported_maybe(word: Option<&str>) -> Markup {
    word.map_or_else(|| state("unknown", "idle", "clock", "Unknown: nothing reported yet"), reported)
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `1 device`, `3 identities`, `100,000 devices`.
pub(super) fn count(number: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{} {stem}ies", thousands(number)),
        None => format!("{} {noun}s", thousands(number)),
    }
}

pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (number as f64, 0);
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 || size >= 100.0 { format!("{size:.0} {}", units[unit]) } else { format!("{size:.1} {}", units[unit]) }
}

/// Formats a quantity as devices report it: `24105Mi` is `23.5 GiB`. None if it is not a quantity.
pub(super) fn quantity(text: &str) -> Option<String> {
    let number = margo::quantity::parse_bytes(text)?;
    let shown = bytes(u64::try_from(number).ok()?);
    Some(shown.replace(".0 ", " "))
}

fn read(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_microsecond()))
}

/// How long ago. The script keeps it up to date and sets the title to local time.
pub(super) fn ago(text: &str, now: Timestamp) -> Markup {
    let Some(at) = read(text) else { return Markup::text(text) };
    let (clear, short) = (clear(at), relative(at, now));
    Markup::trusted(format!(
        "<time datetime=\"{}\" title=\"{}\">{}</time>",
        escape(text),
        escape(&clear),
        escape(&short)
    ))
}

/// Date and time. The script converts them to the time zone of the browser.
pub(super) fn moment(text: &str) -> Markup {
    let Some(at) = read(text) else { return Markup::text(text) };
    Markup::trusted(format!("<time datetime=\"{}\" data-exact>{}</time>", escape(text), escape(&clear(at))))
}

/// The same in a column whose heading names the time zone.
pub(super) fn exact(text: &str) -> Markup {
    let Some(at) = read(text) else { return Markup::text(text) };
    let clock = clear(at).replace(" UTC", "");
    Markup::trusted(format!("<time class=\"exact\" datetime=\"{}\" data-exact>{clock}</time>", escape(text)))
}

/// `2026-11-17 09:04:47 UTC`
pub(super) fn clear(at: Timestamp) -> String {
    let text = Timestamp(at.0.div_euclid(1_000_000) * 1_000_000).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    // Rounded to the nearest unit, like the script (`times` in times.js): 30 days of validity read as 30 days from the start.
    let (ahead, apart) = if at > now { (true, at.since(now)) } else { (false, now.since(at)) };
    let seconds = (apart.as_millis() + 500) / 1_000;
    let [minutes, hours, days] = [60, 3_600, 86_400].map(|unit| (seconds + unit / 2) / unit);
    let words = match (seconds, minutes, hours) {
        (0..=4, ..) if !ahead => return "just now".to_owned(),
        (0..60, ..) => format!("{seconds} s"),
        (_, 0..60, _) => format!("{minutes} min"),
        (.., 0..48) => format!("{hours} h"),
        _ => format!("{days} days"),
    };
    if ahead { format!("in {words}") } else { format!("{words} ago") }
}

/// Rewrites a sentence for pages: applications by name, no ids, readable times.
pub(super) fn named(text: &str, names: &HashMap<String, String>) -> String {
    let mut sentence = String::with_capacity(text.len());
    let (mut parts, mut kinds): (Vec<&str>, Vec<usize>) = (text.split('`').collect(), Vec::new());
    // "profile `line-monitor-helm` (helm): ..." becomes "Helm: ...": readers may not know profile names.
    for index in 1..parts.len().saturating_sub(1) {
        let kind = parts[index + 1].strip_prefix(" (").and_then(|rest| rest.split_once("):"));
        if let (Some(before), Some((kind, _))) = (parts[index - 1].strip_suffix("profile "), kind) {
            let behind = &parts[index + 1][" (".len() + kind.len() + 1..];
            (parts[index - 1], parts[index], parts[index + 1]) = (before, kind, behind);
            kinds.push(index);
        }
    }
    for (index, part) in parts.iter().enumerate() {
        let quoted = index % 2 == 1 && index + 1 < parts.len();
        if !quoted {
            if index % 2 == 1 {
                sentence.push('`');
            }
            sentence.push_str(&readable(part));
        } else if kinds.contains(&index) {
            sentence.push_str(&capital(part));
        } else if let Some(name) = names.get(*part) {
            sentence.push_str(name);
        } else if Uuid::try_parse(part).is_ok() {
            // Ids are left to the link next to the sentence.
            sentence.truncate(sentence.trim_end().len());
        } else {
            let part = part.strip_prefix("token:").unwrap_or(part);
            let part = place(part);
            sentence.push('`');
            sentence.push_str(part);
            sentence.push('`');
        }
    }
    sentence
}

/// A device that is its own client is shown with one name, not as `press-07/press-07`.
pub(super) fn place(name: &str) -> &str {
    name.split_once('/').filter(|(client, device)| client == device).map_or(name, |(one, _)| one)
}

/// Formats `2026-11-17T09:04:47Z` like [`clear`].
fn readable(text: &str) -> String {
    let words = text.split_inclusive(' ').map(|word| {
        let stamp = word.trim_end_matches([' ', ',', ';', ':', '.', ')']);
        match read(stamp) {
            Some(at) if stamp.contains('T') => word.replacen(stamp, &clear(at), 1),
            _ => word.to_owned(),
        }
    });
    words.collect()
}

/// The name of an actor, without the account kind in front.
pub(super) fn actor(name: &str) -> String {
    match name.split_once(':') {
        Some(("token" | "operator", name)) => name.to_owned(),
        Some(("client", name)) => format!("device {name}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_relative_times_with_absolute_times_in_the_title() {
        let now = Timestamp(1_790_000_000_000_000);
        let at = |seconds: u64| now.minus(std::time::Duration::from_secs(seconds));
        for (seconds, words) in
            [(2, "just now"), (59, "59 s ago"), (61, "1 min ago"), (7_300, "2 h ago"), (200_000, "2 days ago")]
        {
            assert_eq!(relative(at(seconds), now), words);
        }
        let ahead = |seconds: f64| relative(now.plus(std::time::Duration::from_secs_f64(seconds)), now);
        assert_eq!((ahead(89.0), ahead(90.0)), ("in 1 min".to_owned(), "in 2 min".to_owned()));
        let days = |days: u32| f64::from(days) * 86_400.0 - 0.3;
        assert_eq!((ahead(days(30)), ahead(12.0 * 3_600.0 - 90.0)), ("in 30 days".to_owned(), "in 12 h".to_owned()));
        assert_eq!((ahead(3_599.0), ahead(59.6)), ("in 1 h".to_owned(), "in 1 min".to_owned()));
        assert_eq!(clear(now), "2026-09-21 14:13:20 UTC");
        assert!(ago("<b>", now).to_string().starts_with("&lt;"));
    }

    #[test]
    fn sentences_use_names_instead_of_ids() {
        let names = HashMap::from([("line-monitor".to_owned(), "Line Monitor".to_owned())]);
        for (sentence, read) in [
            ("`line-monitor` on `press-01/press-01` failed", "Line Monitor on `press-01` failed"),
            ("change `237b716d-1c09-47b3-9b7a-9e2a9cc1dbd1`: create", "change: create"),
            ("`token:admin` asked for it", "`admin` asked for it"),
            ("last seen at 2026-11-17T13:24:06Z; pending", "last seen at 2026-11-17 13:24:06 UTC; pending"),
            ("an odd ` is left alone", "an odd ` is left alone"),
            (
                "2 devices: profile `lm-helm` (helm): no Helm; profile `b` (compose): no",
                "2 devices: Helm: no Helm; Compose: no",
            ),
            ("profile `small` was asked for", "profile `small` was asked for"),
        ] {
            assert_eq!(named(sentence, &names), read);
        }
    }

    #[test]
    fn formats_quantities_of_devices() {
        for (sent, shown) in [
            ("24105Mi", Some("23.5 GiB")),
            ("8Gi", Some("8 GiB")),
            ("3.9 Gi", Some("3.9 GiB")),
            ("512Mi", Some("512 MiB")),
            ("1.8Ti", Some("1.8 TiB")),
            ("250000Mi", Some("244 GiB")),
            ("a lot", None),
            ("99999999999Ei", None),
        ] {
            assert_eq!(quantity(sent).as_deref(), shown, "{sent}");
        }
    }

    #[test]
    fn formats_numbers() {
        assert_eq!((count(1, "device"), count(100_000, "device")), ("1 device".into(), "100,000 devices".into()));
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!((bytes(512), bytes(1536), bytes(300 << 20)), ("512 B".into(), "1.5 KiB".into(), "300 MiB".into()));
    }
}
