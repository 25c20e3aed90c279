//! Errors for operators: what failed, why, what to do next, and an exit code.

use crate::output::paint;
use owo_colors::Style;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit codes are part of the interface; documented in `margrave --help` and the operator guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command ran, but the result is a failure: a device failed, a check did not pass.
    Failed = 1,
    /// Invalid or incomplete command line; the same code as clap.
    Usage = 2,
    /// The server is not reachable.
    Unreachable = 3,
    /// The server rejected the token.
    Unauthorized = 4,
    /// Not found.
    NotFound = 5,
    /// The server rejected the request.
    Refused = 6,
    /// Timed out before the result was known.
    TimedOut = 7,
    /// Ctrl-C; the code that shells use.
    Interrupted = 130,
}

/// The exit codes as shown in `margrave --help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure: a device failed, a check did not pass
  2  invalid or incomplete command line
  3  the server is not reachable
  4  the server rejected the token
  5  not found
  6  the server rejected the request
  7  timed out (--timeout) before the result was known
  130  interrupted with Ctrl-C; the request continues on the server";

/// An error with its reasons and the next step.
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

    /// Adds an error and all its causes as reasons.
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
    pub(crate) fn render(&self, color: bool) -> String {
        let mut text = format!("{} {}", paint("error:", Style::new().red().bold(), color), self.what);
        for why in &self.why {
            for (index, line) in why.lines().enumerate() {
                let _ = write!(text, "\n  {}{line}", if index == 0 { "- " } else { "  " });
            }
        }
        if let Some(next) = &self.next {
            let _ = write!(text, "\n{} {next}", paint("next:", Style::new().cyan().bold(), color));
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
    fn a_failure_shows_the_problem_the_reasons_and_the_next_step() {
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
            Exit::Unauthorized,
            Exit::NotFound,
            Exit::Refused,
            Exit::TimedOut,
            Exit::Interrupted,
        ] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)), "{exit:?} is not in the help");
        }
    }
}
