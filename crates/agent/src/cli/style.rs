//! Colours, taken away by the stream where they do not belong (pipes, NO_COLOR).

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

/// Good, on its way, or bad.
pub(super) fn state(text: &str) -> String {
    match text {
        "installed" | "converged" => text.green().to_string(),
        "failed" => text.red().to_string(),
        "removed" => text.dimmed().to_string(),
        _ => text.yellow().to_string(),
    }
}
