//! Colors, removed by the stream in pipes and with NO_COLOR.

use owo_colors::OwoColorize as _;

pub(super) fn problem(text: &str) -> String {
    text.red().bold().to_string()
}

pub(super) fn heading(text: &str) -> String {
    text.bold().to_string()
}

pub(super) fn quiet(text: &str) -> String {
    text.dimmed().to_string()
}

/// Colored by whether the state is good, in progress or bad.
pub(super) fn state(text: &str) -> String {
    match text {
        "installed" | "up-to-date" => text.green().to_string(),
        "failed" => text.red().to_string(),
        "removed" => text.dimmed().to_string(),
        _ => text.yellow().to_string(),
    }
}
