//! `--watch`, for every read-only command: runs it, waits for an event, runs it again, and shows changed output.
//!
//! The commands are unaware of it. They run unchanged, and this module compares their captured output.

mod screen;

use crate::arguments::Cli;
use crate::commands::Session;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Output};
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches as _};
use margrave_api::client::{ClientError, EventQuery, StreamItem};
use screen::Screen;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Names of read-only commands.
const LOOKING: [&str; 12] = [
    "list",
    "show",
    "status",
    "compatibility",
    "devices",
    "copies",
    "external",
    "history",
    "parameters",
    "document",
    "explain",
    "diff",
];
/// Commands that do not use a server.
const LOCAL: [&str; 1] = ["config"];

/// Events come in bursts: events within this time cause one refresh.
const CALM: Duration = Duration::from_millis(200);
/// Refresh interval without events: some shown values cause no event, such as component progress and ages.
const REFRESH_INTERVAL: Duration = Duration::from_secs(20);
const REFRESH_ON_SCREEN: Duration = Duration::from_secs(2);
/// Refresh interval without an event stream.
const REFRESH_WITHOUT_EVENTS: Duration = Duration::from_secs(3);

/// Adds `--watch` to every read-only command.
pub(crate) fn add(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|below| {
        if LOCAL.contains(&below.get_name()) {
            return below;
        }
        if !below.has_subcommands() && LOOKING.contains(&below.get_name()) {
            return below.arg(
                Arg::new("watch").long("watch").action(ArgAction::SetTrue).help("Refresh on every change until Ctrl-C"),
            );
        }
        add(below)
    })
}

pub(crate) fn requested(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => requested(below),
        None => matches.try_get_one::<bool>("watch").ok().flatten().copied().unwrap_or(false),
    }
}

/// Repeats the command until Ctrl-C, which is a normal exit.
pub(crate) async fn run(matches: &ArgMatches, session: &Session) -> Outcome {
    let mut watch = Watch {
        matches,
        session: Session { api: session.api.clone(), out: session.out.captured(), target: session.target.clone() },
        screen: Screen::new(session.out),
        events: None,
        out: session.out,
        troubled: false,
    };
    if !session.out.terminal {
        crate::clock::show_instants();
    }
    tokio::select! {
        ended = watch.go_on() => ended,
        _ = tokio::signal::ctrl_c() => {
            watch.screen.leave();
            Ok(())
        }
    }
}

struct Watch<'a> {
    matches: &'a ArgMatches,
    session: Session,
    screen: Screen,
    /// None if no stream is available.
    events: Option<mpsc::Receiver<Result<StreamItem, ClientError>>>,
    out: Output,
    /// Whether the unreachable server was already reported.
    troubled: bool,
}

impl Watch<'_> {
    async fn go_on(&mut self) -> Outcome {
        // Connect before the first run, so that no event is missed.
        self.connect().await?;
        let mut first = true;
        loop {
            match self.look().await {
                Ok(()) => self.troubled = false,
                // Wait for a restarting server; a server that never responded means a wrong address.
                Err(failure) if !first && failure.exit == Exit::Unreachable => self.complain(&failure.what),
                Err(failure) => return Err(failure),
            }
            first = false;
            // Report an empty list only once.
            self.session.out.quiet = true;
            if !self.screen.show(output::take_captured()) {
                return Ok(());
            }
            self.wait().await?;
        }
    }

    async fn look(&self) -> Outcome {
        output::take_captured();
        let cli = Cli::from_arg_matches(self.matches).map_err(|error| Failure::usage(error.to_string()))?;
        crate::operate(cli.command, &self.session).await
    }

    async fn connect(&mut self) -> Outcome {
        let mut stream = self.session.api.event_stream(EventQuery::default());
        if let Err(error) = stream.next().await {
            let reason = error.to_string();
            let failure = Failure::from(error);
            if matches!(failure.exit, Exit::Unreachable | Exit::Unauthorized) {
                return Err(failure);
            }
            self.fall_back_to_polling(&reason);
            return Ok(());
        }
        // Follow events in a separate task, so that it does not block the command.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let streamed = stream.next().await;
                let ended = streamed.is_err();
                if sender.send(streamed).await.is_err() || ended {
                    return;
                }
            }
        });
        self.events = Some(receiver);
        Ok(())
    }

    /// Waits until a refresh is due.
    async fn wait(&mut self) -> Outcome {
        let again = match (&self.events, self.out.terminal) {
            (None, _) => REFRESH_WITHOUT_EVENTS,
            (Some(_), true) => REFRESH_ON_SCREEN,
            (Some(_), false) => REFRESH_INTERVAL,
        };
        let deadline = Instant::now() + again;
        let mut calm_at = None;
        loop {
            let until = calm_at.unwrap_or(deadline);
            let next = async {
                match &mut self.events {
                    Some(events) => events.recv().await,
                    None => std::future::pending().await,
                }
            };
            let streamed = tokio::select! {
                streamed = next => streamed,
                () = sleep_until(until) => return Ok(()),
            };
            match streamed {
                Some(Ok(StreamItem::Event(_) | StreamItem::Gap(_) | StreamItem::Connected)) => {
                    calm_at.get_or_insert_with(|| Instant::now() + CALM);
                }
                Some(Ok(StreamItem::Lost(error))) => self.complain(&error.to_string()),
                Some(Err(error)) => {
                    let reason = error.to_string();
                    let failure = Failure::from(error);
                    if failure.exit == Exit::Unauthorized {
                        return Err(failure);
                    }
                    self.fall_back_to_polling(&reason);
                    return Ok(());
                }
                None => self.events = None,
            }
        }
    }

    fn fall_back_to_polling(&mut self, reason: &str) {
        self.events = None;
        self.out.say(format!(
            "No event stream ({reason}); refreshing every {} s instead.",
            REFRESH_WITHOUT_EVENTS.as_secs()
        ));
    }

    fn complain(&mut self, reason: &str) {
        if !self.troubled {
            self.troubled = true;
            self.out.say(format!("The server does not respond ({reason}); retrying."));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, String, bool)>) {
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            if below.has_subcommands() {
                leaves(below, &path, found);
            } else {
                let about = below.get_about().map(ToString::to_string).unwrap_or_default();
                let watched = below.get_arguments().any(|argument| argument.get_id() == "watch");
                found.push((path, about, watched));
            }
        }
    }

    /// Fails for a new read-only command without `--watch`: name it like the others, or add its name above.
    #[test]
    fn every_command_that_shows_something_can_be_watched() {
        let mut found = Vec::new();
        leaves(&crate::examples::command(), "margrave", &mut found);
        assert!(found.iter().filter(|(_, _, watched)| *watched).count() >= 15, "{found:?}");
        for (path, about, watched) in found {
            let name = path.rsplit(' ').next().unwrap_or_default();
            let local = LOCAL.iter().any(|local| path.starts_with(&format!("margrave {local}")));
            // `events` has --follow instead.
            let follows = path == "margrave events";
            let shows = name == "list" || name == "show" || about.starts_with("Show ") || about.starts_with("Explain ");
            assert!(watched || !shows || local || follows, "`{path}` has no --watch ({about})");
        }
    }

    #[test]
    fn detects_the_watch_flag_in_every_subcommand() {
        let parse = |line: &str| crate::examples::command().try_get_matches_from(line.split(' ')).unwrap();
        assert!(requested(&parse("margrave device list --watch")));
        assert!(requested(&parse("margrave devices ls --watch -o json")));
        assert!(requested(&parse("margrave status --watch")));
        assert!(!requested(&parse("margrave device list")));
        assert!(!requested(&parse("margrave logout")));
        assert!(crate::examples::command().try_get_matches_from(["margrave", "logout", "--watch"]).is_err());
    }
}
