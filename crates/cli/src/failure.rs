//! What a command says when it cannot do what it was asked: what, why, what to do next, and an exit code.

use crate::output::paint;
use owo_colors::Style;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit codes are part of the interface; `margrave --help` and the operator guide list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The request was carried out and its outcome is bad: a device failed, a check did not pass.
    Failed = 1,
    /// The command line is not complete or not understood; the same number clap uses.
    Usage = 2,
    /// No answer from the server.
    Unreachable = 3,
    /// The server does not know the token.
    Unauthorised = 4,
    /// What was named does not exist.
    NotFound = 5,
    /// The server understood and refused.
    Refused = 6,
    /// The outcome was not known when the time given was over.
    TimedOut = 7,
    /// Ctrl-C; the number shells give to it.
    Interrupted = 130,
}

/// The exit codes as shown in `margrave --help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  carried out, and the outcome is bad: a device failed, a check did not pass
  2  the command line is incomplete or not understood
  3  the server cannot be reached
  4  the server does not accept the token
  5  what was named does not exist
  6  the server refused, and said why
  7  the time given with --timeout was over before the outcome was known
  130  interrupted with Ctrl-C; what was asked for goes on at the server";

/// An error for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) why: Vec<String>,
    pub(crate) next: Option<String>,
    pub(crate) exit: Exit,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { what: what.into(), why: Vec::new(), next: None, exit }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    /// Adds a reason; may be called several times.
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds an error and everything behind it as reasons.
    pub(crate) fn caused_by(mut self, error: &dyn std::error::Error) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            self.why.push(error.to_string());
            cause = error.source();
        }
        self
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The text for stderr.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut text = format!("{} {}", paint("error:", Style::new().red().bold(), colour), self.what);
        for why in &self.why {
            for (index, line) in why.lines().enumerate() {
                let _ = write!(text, "\n  {}{line}", if index == 0 { "- " } else { "  " });
            }
        }
        if let Some(next) = &self.next {
            let _ = write!(text, "\n{} {next}", paint("next:", Style::new().cyan().bold(), colour));
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_what_next() {
        let failure = Failure::usage("deploy `a`").because("no device\nnamed").because("no version").next("name one");
        assert_eq!(
            failure.render(false),
            "error: deploy `a`\n  - no device\n    named\n  - no version\nnext: name one"
        );
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        for exit in [
            Exit::Failed,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Unauthorised,
            Exit::NotFound,
            Exit::Refused,
            Exit::TimedOut,
            Exit::Interrupted,
        ] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)), "{exit:?} is not in the help");
        }
    }
}
