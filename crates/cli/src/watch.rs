//! `--watch`, for every command that only looks: run it, wait for an event, run it again, and show what is different.
//!
//! The commands know nothing of it. They are run as they are, and what they would have written is compared here.

mod screen;

use crate::arguments::Cli;
use crate::commands::Session;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Output};
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches as _};
use margrave_api::client::{ClientError, EventQuery, Streamed};
use screen::Screen;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Commands by these names only look at a fleet.
const LOOKING: [&str; 12] = [
    "list",
    "show",
    "status",
    "fit",
    "devices",
    "copies",
    "others",
    "history",
    "questions",
    "document",
    "explain",
    "diff",
];
/// These have nothing to do with a fleet.
const LOCAL: [&str; 1] = ["config"];

/// Events come in bunches: what happens within this time is one look.
const CALM: Duration = Duration::from_millis(200);
/// A little of what is shown makes no event, such as the progress of one component; ages on a screen grow.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_SCREEN: Duration = Duration::from_secs(2);
/// Without a stream.
const LOOK_AGAIN_BLIND: Duration = Duration::from_secs(3);

/// Gives every command that only looks its `--watch`, whoever adds it.
pub(crate) fn add(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|below| {
        if LOCAL.contains(&below.get_name()) {
            return below;
        }
        if !below.has_subcommands() && LOOKING.contains(&below.get_name()) {
            return below.arg(
                Arg::new("watch")
                    .long("watch")
                    .action(ArgAction::SetTrue)
                    .help("Show it again whenever it changes, until Ctrl-C"),
            );
        }
        add(below)
    })
}

pub(crate) fn wanted(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => wanted(below),
        None => matches.try_get_one::<bool>("watch").ok().flatten().copied().unwrap_or(false),
    }
}

/// Looks again and again. Ctrl-C is the way out, and none to be sorry about.
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
    /// None when it cannot be had.
    events: Option<mpsc::Receiver<Result<Streamed, ClientError>>>,
    out: Output,
    /// It was said that the server cannot be reached.
    troubled: bool,
}

impl Watch<'_> {
    async fn go_on(&mut self) -> Outcome {
        // Connected before the first look, so that nothing falls between the two.
        self.connect().await?;
        let mut first = true;
        loop {
            match self.look().await {
                Ok(()) => self.troubled = false,
                // A server that restarts comes back; one that never answered is a mistake in the address.
                Err(failure) if !first && failure.exit == Exit::Unreachable => self.complain(&failure.what),
                Err(failure) => return Err(failure),
            }
            first = false;
            // Talk about an empty list once is enough.
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
            if matches!(failure.exit, Exit::Unreachable | Exit::Unauthorised) {
                return Err(failure);
            }
            self.go_blind(&reason);
            return Ok(());
        }
        // Followed on the side, so that looking at the fleet and waiting for it do not get in each other's way.
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

    /// Until there is a reason to look again.
    async fn wait(&mut self) -> Outcome {
        let again = match (&self.events, self.out.terminal) {
            (None, _) => LOOK_AGAIN_BLIND,
            (Some(_), true) => LOOK_AGAIN_SCREEN,
            (Some(_), false) => LOOK_AGAIN,
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
                Some(Ok(Streamed::Event(_) | Streamed::Gap(_) | Streamed::Connected)) => {
                    calm_at.get_or_insert_with(|| Instant::now() + CALM);
                }
                Some(Ok(Streamed::Lost(error))) => self.complain(&error.to_string()),
                Some(Err(error)) => {
                    let reason = error.to_string();
                    let failure = Failure::from(error);
                    if failure.exit == Exit::Unauthorised {
                        return Err(failure);
                    }
                    self.go_blind(&reason);
                    return Ok(());
                }
                None => self.events = None,
            }
        }
    }

    fn go_blind(&mut self, reason: &str) {
        self.events = None;
        self.out.say(format!("No events ({reason}); looking every {} s instead.", LOOK_AGAIN_BLIND.as_secs()));
    }

    fn complain(&mut self, reason: &str) {
        if !self.troubled {
            self.troubled = true;
            self.out.say(format!("The server does not answer ({reason}); trying again."));
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

    /// A new command that shows something without `--watch` fails here: call it like the others, or add its name above.
    #[test]
    fn every_command_that_shows_something_can_be_watched() {
        let mut found = Vec::new();
        leaves(&crate::examples::command(), "margrave", &mut found);
        assert!(found.iter().filter(|(_, _, watched)| *watched).count() >= 15, "{found:?}");
        for (path, about, watched) in found {
            let name = path.rsplit(' ').next().unwrap_or_default();
            let local = LOCAL.iter().any(|local| path.starts_with(&format!("margrave {local}")));
            // It follows the events themselves, with --follow.
            let follows = path == "margrave events";
            let shows = name == "list" || name == "show" || about.starts_with("Show ") || about.starts_with("Tell ");
            assert!(watched || !shows || local || follows, "`{path}` has no --watch ({about})");
        }
    }

    #[test]
    fn the_flag_is_found_wherever_the_command_is() {
        let parse = |line: &str| crate::examples::command().try_get_matches_from(line.split(' ')).unwrap();
        assert!(wanted(&parse("margrave device list --watch")));
        assert!(wanted(&parse("margrave devices ls --watch -o json")));
        assert!(wanted(&parse("margrave status --watch")));
        assert!(!wanted(&parse("margrave device list")));
        assert!(!wanted(&parse("margrave logout")));
        assert!(crate::examples::command().try_get_matches_from(["margrave", "logout", "--watch"]).is_err());
    }
}
