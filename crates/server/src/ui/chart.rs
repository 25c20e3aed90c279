//! Small SVG charts. Each has a text alternative.

use super::markup::{Markup, escape};
use super::words;
use crate::app::overview::Hour;
use margrave_api::deployments::{DeploymentState, Status};
use margrave_api::events::Event;
use margrave_core::time::Timestamp;
use std::fmt::Write as _;

/// Units of a bar from end to end.
const WIDTH: f64 = 1000.0;
/// Parts with a count are at least this wide, so they stay visible.
const PART_MIN: f64 = 8.0;

/// One part of a bar.
pub(super) struct Part {
    pub(super) tone: &'static str,
    pub(super) word: String,
    pub(super) count: u64,
}

/// Parts of a whole, side by side.
pub(super) fn bar(parts: &[Part]) -> Markup {
    let total: u64 = parts.iter().map(|part| part.count).sum();
    let shown: Vec<&Part> = parts.iter().filter(|part| part.count > 0).collect();
    let spare = WIDTH - PART_MIN * shown.len() as f64;
    let (mut x, mut rects) = (0.0, String::new());
    for part in &shown {
        let width = PART_MIN + spare * part.count as f64 / total.max(1) as f64;
        let _ = write!(
            rects,
            "<rect class=\"tone-{}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"8\"/>",
            part.tone
        );
        x += width;
    }
    let words: Vec<String> =
        shown.iter().map(|part| format!("{} {}", words::thousands(part.count), part.word.to_lowercase())).collect();
    let label = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    Markup::trusted(format!(
        "<svg class=\"bar\" viewBox=\"0 0 {WIDTH} 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{rects}</svg>",
        escape(&label)
    ))
}

/// Progress of a rollout: a gray track for all targets, filled as far as they are done, with the failed ones in their own
/// color. The legend below it has the numbers.
pub(super) struct RolloutProgress {
    pub(super) total: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl RolloutProgress {
    /// `state` is the API value of the state of the rollout.
    pub(super) fn bar(&self, state: &str) -> Markup {
        let Self { total, done, failed } = *self;
        let width = |count: u64| match count {
            0 => 0.0,
            count => (WIDTH * count as f64 / total.max(1) as f64).max(PART_MIN),
        };
        // A few failures among many devices stay visible, so they take their space from the rest.
        let failed_width = width(failed);
        let done_width = width(done).min(WIDTH - failed_width);
        let mut rects = String::new();
        for (key, tone, x, width) in
            [("up-to-date", "good", 0.0, done_width), ("failed", "bad", done_width, failed_width)]
        {
            if width > 0.0 {
                let _ = write!(
                    rects,
                    "<rect class=\"tone-{tone}\" data-state=\"{key}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"8\"/>"
                );
            }
        }
        let mut label = format!("{} of {} done", words::thousands(done), words::thousands(total));
        if failed > 0 {
            let _ = write!(label, ", {} failed", words::thousands(failed));
        }
        Markup::trusted(format!(
            "<svg class=\"bar\" data-state=\"{}\" viewBox=\"0 0 {WIDTH} 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{rects}</svg>",
            escape(state),
            escape(&label)
        ))
    }

    /// The numbers; `open` are the states of the other targets with their counts, which are not filled in the bar.
    pub(super) fn legend(&self, open: &[(&str, u64, String)]) -> Markup {
        let Self { total, done, failed } = *self;
        let mut html = format!(
            "<span class=\"tone-good\" data-state=\"up-to-date\"><i></i>{} of {} done</span>",
            words::thousands(done),
            words::thousands(total)
        );
        if failed > 0 {
            let failed = words::thousands(failed);
            let _ = write!(html, "<span class=\"tone-bad\" data-state=\"failed\"><i></i>{failed} failed</span>");
        }
        for (key, count, word) in open.iter().filter(|(_, count, _)| *count > 0) {
            let count = words::thousands(*count);
            let _ = write!(
                html,
                "<span class=\"tone-track\" data-state=\"{}\"><i></i>{count} {}</span>",
                escape(key),
                escape(word)
            );
        }
        Markup::trusted(html)
    }
}

/// The states in [`state_bar`] with their colors and counts.
pub(super) fn state_legend(counts: &margrave_api::summary::Counts) -> Markup {
    let mut html = String::new();
    for deployment_state in DeploymentState::ALL {
        let count = counts.of(deployment_state);
        if count > 0 {
            let style = words::deployment_state_badge(deployment_state);
            let (tone, key, word) = (style.tone, style.key, style.word.to_lowercase());
            let count = words::thousands(count);
            let _ = write!(html, "<span class=\"tone-{tone}\" data-state=\"{key}\"><i></i>{count} {word}</span>");
        }
    }
    Markup::trusted(html)
}

/// Deployments by state.
pub(super) fn state_bar(counts: &margrave_api::summary::Counts) -> Markup {
    let parts: Vec<Part> = DeploymentState::ALL
        .into_iter()
        .map(|deployment_state| {
            let style = words::deployment_state_badge(deployment_state);
            let count = counts.of(deployment_state);
            Part { tone: style.tone, word: style.word.to_owned(), count }
        })
        .collect();
    bar(&parts)
}

/// One column per hour, with good outcomes below bad ones.
pub(super) fn hours(hours: &[Hour], tones: [(&str, &str); 2], of: impl Fn(&Hour) -> [u64; 2]) -> Markup {
    const HEIGHT: f64 = 84.0;
    const STEP: f64 = 20.0;
    const COLUMN: f64 = 14.0;
    /// Room for the number at the axis.
    const LEFT: f64 = 40.0;
    if hours.iter().all(|hour| of(hour) == [0, 0]) {
        return Markup::trusted("<p class=\"soft\">Nothing yet.</p>".to_owned());
    }
    let most = hours.iter().map(|hour| of(hour).iter().sum::<u64>()).max().unwrap_or_default();
    let mut drawn = String::new();
    for (index, hour) in hours.iter().enumerate() {
        let x = LEFT + STEP * index as f64 + 3.0;
        let mut y = HEIGHT;
        let counts = of(hour);
        let clock = words::clear(hour.begins);
        let clock = clock.get(11..16).unwrap_or_default();
        let _ = write!(
            drawn,
            "<g><title>{clock} UTC: {} {}, {} {}</title>",
            counts[0],
            escape(tones[0].1),
            counts[1],
            escape(tones[1].1)
        );
        // Makes empty hours show their title on hover as well.
        let _ = write!(drawn, "<rect x=\"{x}\" y=\"0\" width=\"{COLUMN}\" height=\"{HEIGHT}\" fill-opacity=\"0\"/>");
        for ((tone, _), count) in tones.into_iter().zip(counts) {
            if count > 0 {
                let height = (HEIGHT - 4.0) * count as f64 / most.max(1) as f64;
                y -= height.max(2.0);
                let _ = write!(
                    drawn,
                    "<rect class=\"tone-{tone}\" x=\"{x}\" y=\"{y:.1}\" width=\"{COLUMN}\" height=\"{:.1}\" rx=\"1.5\"/>",
                    height.max(2.0)
                );
            }
        }
        drawn.push_str("</g>");
        if index % 6 == 0 {
            let begins = hour.begins;
            let y = HEIGHT + 14.0;
            let _ = write!(drawn, "<text x=\"{x}\" y=\"{y}\" data-clock=\"{begins}\">{clock} UTC</text>");
        }
    }
    let totals = hours.iter().fold([0, 0], |sum, hour| [sum[0] + of(hour)[0], sum[1] + of(hour)[1]]);
    let label = format!(
        "The last {} hours: {} {}, {} {}; at most {most} in one hour",
        hours.len(),
        totals[0],
        tones[0].1,
        totals[1],
        tones[1].1
    );
    let width = LEFT + STEP * hours.len() as f64;
    let top = words::thousands(most);
    Markup::trusted(format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {}\" role=\"img\" aria-label=\"{}\">\
         <text x=\"0\" y=\"14\">{top}</text><text x=\"0\" y=\"{HEIGHT}\">0</text>\
         <line x1=\"{LEFT}\" x2=\"{width}\" y1=\"4\" y2=\"4\"/>\
         <line x1=\"{LEFT}\" x2=\"{width}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/>{drawn}</svg>",
        HEIGHT + 18.0,
        escape(&label)
    ))
}

/// What a device reported about one deployment, from the oldest stored report until now. `history` is newest first.
pub(super) fn history(history: &[Status], now: Timestamp) -> Markup {
    let at =
        |status: &Status| status.received_at.parse::<jiff::Timestamp>().map_or(now.0, jiff::Timestamp::as_microsecond);
    let Some(first) = history.last() else { return Markup::default() };
    let begins = at(first);
    let stretches: Vec<Stretch<'_>> = history
        .iter()
        .rev()
        .map(|status| Stretch { from: at(status), tone: tone(&status.state), word: &status.state })
        .collect();
    strip(&stretches, begins, now)
}

/// When the client of a device was online over the last day. `events` are of the client, newest first.
pub(super) fn contact(events: &[Event], now: Timestamp, heard: bool) -> Markup {
    let style = |from, heard| {
        let (tone, word) = if heard { ("good", "online") } else { ("warn", "offline") };
        Stretch { from, tone, word }
    };
    let day = now.minus(DAY).0;
    let turns = events.iter().rev().filter_map(|event| {
        let back = match event.kind.as_str() {
            "client.offline" => false,
            "client.online" | "client.connected" => true,
            _ => return None,
        };
        let at = event.at.parse::<jiff::Timestamp>().ok()?.as_microsecond();
        Some((at, back, event.kind == "client.connected"))
    });
    let (mut stretches, mut before): (Vec<Stretch<'_>>, Option<bool>) = (Vec::new(), None);
    for (at, back, first) in turns {
        if at <= day {
            before = Some(back);
            continue;
        }
        // Before its first connection, the client was neither online nor offline.
        if stretches.is_empty() && !first {
            stretches.push(style(day, before.unwrap_or(!back)));
        }
        stretches.push(style(at, back));
    }
    if stretches.is_empty() {
        stretches.push(style(day, heard));
    }
    strip(&stretches, day, now)
}

/// The period that the connectivity chart covers.
const DAY: std::time::Duration = std::time::Duration::from_hours(24);

/// A period from an instant until the next one.
struct Stretch<'a> {
    from: i64,
    tone: &'static str,
    word: &'a str,
}

/// Periods in order, up to now, with both ends and a legend below.
fn strip(stretches: &[Stretch<'_>], begins: i64, now: Timestamp) -> Markup {
    let span = (now.0 - begins).max(1) as f64;
    let (mut rects, mut notice) = (String::new(), Vec::new());
    let mut colors: Vec<(&str, &str)> = Vec::new();
    for (index, Stretch { from, tone, word }) in stretches.iter().enumerate() {
        let to = stretches.get(index + 1).map_or(now.0, |next| next.from);
        let x = (from - begins) as f64 / span * WIDTH;
        let width = ((to - from) as f64 / span * WIDTH).max(3.0);
        let clock = words::clear(Timestamp(*from));
        let _ = write!(
            rects,
            "<rect class=\"tone-{tone}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"18\"><title>{} since {clock}</title></rect>",
            escape(word)
        );
        notice.push(format!("{word} from {clock}"));
        if !colors.contains(&(*tone, *word)) {
            colors.push((tone, word));
        }
    }
    let named = colors
        .iter()
        .map(|(tone, word)| format!("<span><i class=\"tone-{tone}\"></i>{}</span>", escape(&words::capital(word))));
    Markup::trusted(format!(
        "<div class=\"picture\">\
         <svg class=\"strip\" viewBox=\"0 0 {WIDTH} 18\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{rects}</svg>\
         <p class=\"ends soft small\">{}<span>now</span></p><p class=\"legend\">{}</p></div>",
        escape(&notice.join(", ")),
        words::moment(&Timestamp(begins).to_string()),
        named.collect::<String>()
    ))
}

fn tone(state: &str) -> &'static str {
    match state {
        "installed" => "good",
        "failed" => "bad",
        "installing" | "removing" => "busy",
        _ => "idle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_a_progress_bar_only_as_far_as_devices_are_done() {
        let drawn = |total, done, failed| RolloutProgress { total, done, failed }.bar("in-progress").to_string();
        assert_eq!(drawn(3, 0, 0).matches("<rect").count(), 0, "nothing is done");
        let part = drawn(4, 1, 1);
        assert!(part.contains("data-state=\"up-to-date\" x=\"0.0\" y=\"0\" width=\"250.0\""), "{part}");
        assert!(part.contains("data-state=\"failed\" x=\"250.0\" y=\"0\" width=\"250.0\""), "{part}");
        assert!(part.contains("aria-label=\"1 of 4 done, 1 failed\""), "{part}");
        let few = drawn(100_000, 99_999, 1);
        assert!(few.contains("width=\"992.0\"") && few.contains("width=\"8.0\""), "{few}");
    }

    #[test]
    fn a_bar_has_a_text_alternative() {
        let part = |tone, word: &str, count| Part { tone, word: word.to_owned(), count };
        let text = bar(&[part("good", "Up to date", 98_000), part("bad", "Failed", 1), part("idle", "Waiting", 0)])
            .to_string();
        assert!(text.contains("aria-label=\"98,000 up to date, 1 failed\""), "{text}");
        assert_eq!(text.matches("<rect").count(), 2, "a count of zero has no part");
        assert!(bar(&[]).to_string().contains("aria-label=\"nothing\""));
    }

    #[test]
    fn draws_connectivity_from_online_and_offline_events() {
        let now = Timestamp(1_790_000_000_000_000);
        let event = |kind: &str, hours: u64| Event {
            id: 0,
            at: now.minus(std::time::Duration::from_hours(hours)).to_string(),
            kind: kind.to_owned(),
            client: None,
            device: None,
            deployment: None,
            application: None,
            rollout: None,
            actor: None,
            message: String::new(),
            detail: None,
        };
        let drawn = |events: &[Event], heard| {
            let text = contact(events, now, heard).to_string();
            ["good", "warn"].map(|tone| text.matches(&format!("<rect class=\"tone-{tone}\"")).count())
        };
        assert_eq!(drawn(&[], true), [1, 0]);
        assert_eq!(drawn(&[], false), [0, 1]);
        assert_eq!(drawn(&[event("client.offline", 30)], false), [0, 1], "it was offline all day");
        assert_eq!(drawn(&[event("client.online", 2), event("client.offline", 5)], true), [2, 1]);
        assert_eq!(
            drawn(&[event("client.connected", 3)], true),
            [1, 0],
            "nothing is drawn before the first connection"
        );
        let text = contact(&[event("client.offline", 5), event("client.accepted", 9)], now, false).to_string();
        assert!(text.contains("data-exact") && text.contains("now</span>") && text.contains("Online</span>"), "{text}");
    }

    #[test]
    fn draws_all_hours_of_a_day() {
        let day: Vec<Hour> =
            (0..24).map(|hour| Hour { installed: hour, failed: hour / 12, ..Hour::default() }).collect();
        let text =
            hours(&day, [("good", "installed"), ("bad", "failed")], |hour| [hour.installed, hour.failed]).to_string();
        assert!(text.contains("The last 24 hours: 276 installed, 12 failed; at most 24 in one hour"), "{text}");
        assert!(!text.contains("style="), "no inline styles");
        let quiet = hours(&[Hour::default(); 24], [("good", "installed"), ("bad", "failed")], |_| [0, 0]).to_string();
        assert_eq!(quiet, "<p class=\"soft\">Nothing yet.</p>", "an empty chart is a sentence");
    }
}
