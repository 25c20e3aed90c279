//! The numbers as a table for people.

use super::growth_exponent;
use super::polls::Polls;
use super::statuses::Rates;
use std::fmt::Write as _;

pub struct Numbers {
    pub polls: Polls,
    pub publish: Vec<(usize, f64)>,
    pub statuses: Rates,
    pub manifests: Vec<(usize, f64)>,
}

/// Markdown: what was measured, the numbers, and what they mean.
pub fn markdown(numbers: &Numbers) -> String {
    let Numbers { polls, publish, statuses, manifests } = numbers;
    let mut text = String::new();
    let mut line = |content: String| {
        let _ = writeln!(text, "{content}");
    };
    line("| what | measured | reading |".to_owned());
    line("|---|---|---|".to_owned());
    let ratio = polls.margrave.per_cpu_second() / polls.bare.per_cpu_second();
    line(format!(
        "| unchanged polls per processor second | margrave {:.0}, bare axum + rustls {:.0} | **{ratio:.2}** of the bare handler |",
        polls.margrave.per_cpu_second(),
        polls.bare.per_cpu_second()
    ));
    line(format!(
        "| publishing a change, per device | {} | grows with devices^**{:.2}** in all |",
        points(publish, "devices"),
        1.0 + growth_exponent(publish)
    ));
    line(format!(
        "| status reports per second | one per commit {:.0}, 256 per commit {:.0} | grouping is worth **{:.1}** times |",
        statuses.single,
        statuses.batched,
        statuses.batched / statuses.single
    ));
    line(format!(
        "| building a manifest with its bundle | {} | grows with deployments^**{:.2}** |",
        points(manifests, "deployments"),
        growth_exponent(manifests)
    ));
    text
}

fn points(points: &[(usize, f64)], unit: &str) -> String {
    let one = |(size, micros): &(usize, f64)| format!("{micros:.0} µs at {size}");
    format!("{} {unit}", points.iter().map(one).collect::<Vec<_>>().join(", "))
}
