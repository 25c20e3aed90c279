//! Renders explanations. The texts come from the server.

use crate::clock;
use crate::output::{Output, paint};
use margrave_api::explain::{Explanation, Fact};
use owo_colors::Style;
use std::fmt::Write as _;

pub(crate) fn render(out: Output, explanation: &Explanation) -> String {
    let Explanation { subject, state, summary, desired, observed: known, waiting_for, next_steps } = explanation;
    let mut text = format!("{}: {state}\n{summary}\n", paint(subject, Style::new().bold(), out.color));
    for (heading, facts) in
        [("Desired", desired), ("Observed", known), ("Waiting for", waiting_for), ("Next steps", next_steps)]
    {
        text.push_str(&out.heading(heading));
        if facts.is_empty() {
            text.push_str("  nothing\n");
        }
        for fact in facts {
            let _ = writeln!(text, "  {}", line(out, fact));
        }
    }
    text
}

fn line(out: Output, fact: &Fact) -> String {
    let mut line = fact.sentence.clone();
    if let Some(since) = &fact.since {
        let since = format!("({})", clock::ago(since, clock::now()));
        let _ = write!(line, " {}", paint(&since, Style::new().dimmed(), out.color));
    }
    if let Some(command) = &fact.command {
        let _ = write!(line, ": `{}`", paint(command, Style::new().bold(), out.color));
    }
    line
}
