//! Data goes to stdout, messages to stderr. Tables for people, JSON and YAML for programs.

use crate::failure::{Exit, Failure, Outcome};
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use owo_colors::{OwoColorize as _, Style};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

/// Minimum table width.
const WIDTH_MIN: u16 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// Where and how a command writes; set once at the start.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about two streams and their reader")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// Whether stdout is a terminal.
    pub(crate) terminal: bool,
    /// Whether stdout supports colors.
    pub(crate) color: bool,
    /// Whether stderr is a terminal: bars instead of lines, colors in errors.
    pub(crate) talk_terminal: bool,
    pub(crate) talk_color: bool,
    /// Whether prompts are possible.
    pub(crate) interactive: bool,
    pub(crate) quiet: bool,
    /// Capture the output for [`take_captured`] instead of writing it, one line per JSON document.
    pub(crate) capture: bool,
}

/// The captured output of a command.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    pub(crate) text: String,
    /// The output without values that change with every poll, for comparison.
    pub(crate) key: String,
}

/// Global, because only one command runs at a time.
static CAPTURED: Mutex<Captured> = Mutex::new(Captured { text: String::new(), key: String::new() });

pub(crate) fn take_captured() -> Captured {
    std::mem::take(&mut CAPTURED.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Output {
    pub(crate) fn detect(format: Format, quiet: bool) -> Self {
        // https://no-color.org: any non-empty value disables colors.
        let requested = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        Self {
            format,
            terminal: stdout,
            color: requested && stdout,
            talk_terminal: stderr,
            talk_color: requested && stderr,
            interactive: std::io::stdin().is_terminal() && stderr,
            quiet,
            capture: false,
        }
    }

    /// A copy that captures instead of writing; see [`take_captured`].
    pub(crate) fn captured(self) -> Self {
        Self { capture: true, ..self }
    }

    /// Output for a pipe.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            format: Format::Table,
            terminal: false,
            color: false,
            talk_terminal: false,
            talk_color: false,
            interactive: false,
            quiet: false,
            capture: false,
        }
    }

    /// Writes a value as JSON or YAML, or lets `human` write it.
    pub(crate) fn show<T: Serialize + ?Sized>(self, value: &T, human: impl FnOnce(Self) -> String) -> Outcome {
        match self.format {
            Format::Table => self.data(&human(self)),
            Format::Json | Format::Yaml if self.capture => self.keep(value),
            Format::Json => self.data(&(to_json(value)? + "\n")),
            Format::Yaml => self.data(&to_yaml(value)?),
        }
    }

    fn keep<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        let text = if self.format == Format::Json { to_json_line(value)? + "\n" } else { to_yaml(value)? };
        let mut steady = serde_json::to_value(value).unwrap_or_default();
        without_contact(&mut steady);
        let mut captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
        captured.text.push_str(&text);
        captured.key.push_str(&steady.to_string());
        Ok(())
    }

    /// Writes data to stdout. A closed pipe is not an error.
    pub(crate) fn data(self, text: &str) -> Outcome {
        if self.capture {
            let mut captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
            captured.text.push_str(text);
            captured.key.push_str(text);
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::new(Exit::Failed, "write to stdout").caused_by(&error))
            }
            _ => Ok(()),
        }
    }

    /// Prints a message to stderr unless `--quiet` is given.
    pub(crate) fn say(self, text: impl AsRef<str>) {
        if !self.quiet {
            self.must_say(text);
        }
    }

    /// Prints a message to stderr even with `--quiet`.
    #[expect(clippy::unused_self, reason = "talk goes through the one who decided how it looks")]
    pub(crate) fn must_say(self, text: impl AsRef<str>) {
        // A closed stderr cannot be reported.
        let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
    }

    /// A table with these headings; cells are not wrapped in a pipe.
    pub(crate) fn table(self, headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        // Serial lines and some containers report no width or a useless one; let the terminal wrap.
        if self.color && table.width().is_some_and(|width| width >= WIDTH_MIN) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else if self.color {
            table.set_content_arrangement(ContentArrangement::Disabled);
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
            table.force_no_tty();
        }
        table.set_header(headings.iter().map(|heading| {
            let cell = Cell::new(heading.to_uppercase());
            if self.color { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
        for row in rows {
            table.add_row(row.into_iter().map(|text| self.cell(text)));
        }
        let lines: Vec<_> = table.lines().map(|line| line.trim().to_owned()).collect();
        trim_margin(&lines)
    }

    fn cell(self, text: String) -> Cell {
        let color = state_color(&text).filter(|_| self.color);
        let cell = Cell::new(text);
        color.map_or(cell.clone(), |color| cell.fg(color))
    }

    /// Names and aligned values, one per line; empty values are skipped.
    pub(crate) fn fields(self, fields: &[(&str, String)]) -> String {
        let width = fields.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            let name = paint(&format!("{name:width$}"), Style::new().bold(), self.color);
            let value = value.replace('\n', &format!("\n{:1$}", "", width + 2));
            let _ = writeln!(text, "{name}  {value}");
        }
        text
    }

    /// A heading between parts of the output.
    pub(crate) fn heading(self, text: &str) -> String {
        format!("\n{}\n", paint(text, Style::new().bold().underline(), self.color))
    }
}

/// Joins lines, each with a newline; the table's leading blank column is already removed.
fn trim_margin(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// The color of a cell that contains only a state.
fn state_color(text: &str) -> Option<comfy_table::Color> {
    use comfy_table::Color;
    match text {
        "up-to-date" | "removed" | "online" | "active" | "reachable" | "completed" | "installed" | "accepted"
        | "compatible" | "ok" | "yes" => Some(Color::Green),
        "failed"
        | "degraded"
        | "completed-with-failures"
        | "incompatible"
        | "decommissioned"
        | "revoked"
        | "broken" => Some(Color::Red),
        "updating" | "removing" | "in-progress" | "installing" | "waiting" | "expired" | "pending" | "outdated"
        | "device-offline" | "unknown" | "offline" => Some(Color::Yellow),
        _ => None,
    }
}

/// `1 device`, `3 devices`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

pub(crate) fn paint(text: &str, style: Style, color: bool) -> String {
    if color { text.style(style).to_string() } else { text.to_owned() }
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Outcome<String> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::failed("write the output as JSON").caused_by(&error))
}

/// JSON on one line, for programs that read line by line.
pub(crate) fn to_json_line<T: Serialize + ?Sized>(value: &T) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| Failure::failed("write the output as JSON").caused_by(&error))
}

/// Removes last-seen times, which change with every poll and are not changes of the fleet.
fn without_contact(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.remove("lastSeenAt");
            members.values_mut().for_each(without_contact);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_contact),
        _ => {}
    }
}

pub(crate) fn to_yaml<T: Serialize + ?Sized>(value: &T) -> Outcome<String> {
    let mut text = serde_saphyr::to_string(&value)
        .map_err(|error| Failure::failed("write the output as YAML").because(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_a_pipe_has_no_colors_and_is_never_wrapped() {
        let long = "x".repeat(300);
        let text = Output::plain().table(&["name", "state"], [vec![long.clone(), "failed".to_owned()]]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains(&long));
        assert!(!text.contains('\u{1b}'));
        assert!(text.starts_with("NAME"));
    }

    #[test]
    fn aligns_fields_and_skips_empty_ones() {
        let text = Output::plain().fields(&[("id", "a".into()), ("none", String::new()), ("longer", "b\nc".into())]);
        assert_eq!(text, "id      a\nlonger  b\n        c\n");
    }
}
