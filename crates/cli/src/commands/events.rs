//! `margrave events`: what happened, and with `--follow` what happens.

use super::{LimitArgs, Session, every};
use crate::clock;
use crate::failure::Outcome;
use crate::output::{Format, Output, to_yaml};
use margrave_api::client::{EventQuery, Streamed};
use margrave_api::events::{Event, EventGap};
use serde::Serialize;

/// Enough for a screen.
const EVENTS_DEFAULT: usize = 50;
/// The longest kinds there are fit.
const KIND_WIDTH: usize = 24;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave events --follow
  margrave events --since 1h --kind deployment.failed
  margrave events --since 2026-09-21 --until 2026-09-21
  margrave events --follow --device press-07 -o json
  margrave events --follow --after 4711   # go on where another run stopped")]
pub(crate) struct EventsArgs {
    /// Go on with what happens next, until Ctrl-C; survives restarts of the server
    #[arg(long, short)]
    follow: bool,
    /// Only this kind, or all that begin with it: `deployment.failed`, `deployment`, `client`
    #[arg(long)]
    kind: Option<String>,
    /// Only about this client
    #[arg(long)]
    client: Option<String>,
    /// Only about this device
    #[arg(long)]
    device: Option<String>,
    /// Only about this deployment
    #[arg(long, value_name = "ID")]
    deployment: Option<String>,
    /// Only about this application
    #[arg(long = "app", value_name = "APPLICATION")]
    application: Option<String>,
    /// Only about this change
    #[arg(long, value_name = "ID")]
    change: Option<String>,
    /// Only what happened since: a time such as 2026-09-21T08:00:00Z, a day in UTC, or a span such as 90s, 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = clock::parse_instant)]
    since: Option<jiff::Timestamp>,
    /// Only what happened before: a time, the end of a day in UTC, or a span back from now
    #[arg(long, value_name = "TIME", value_parser = clock::parse_end, conflicts_with = "follow")]
    until: Option<jiff::Timestamp>,
    /// Only what happened after the event with this id; 0 for everything the server keeps
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    after: Option<i64>,
    #[command(flatten)]
    limit: LimitArgs,
}

pub(crate) async fn run(args: EventsArgs, session: &Session) -> Outcome {
    let since = args.since.map(|at| at.to_string());
    let query = EventQuery {
        kind: args.kind,
        client: args.client,
        device: args.device,
        deployment: args.deployment,
        application: args.application,
        change: args.change,
        after: args.after.or_else(|| since.as_ref().filter(|_| args.follow).map(|_| 0)),
        since,
        until: args.until.map(|at| at.to_string()),
    };
    if args.follow {
        let limit = args.limit.get();
        return tokio::select! {
            ended = follow(session, query, limit) => ended,
            // What was asked for is done: nothing is left half-way.
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
    }
    // A stretch of time is read from its beginning; without one, the newest are wanted. Both are shown as they happened.
    let from_the_beginning = query.since.is_some() || query.after.is_some();
    let limit = args.limit.get().or(if from_the_beginning { None } else { Some(EVENTS_DEFAULT) });
    let mut events = every(limit, async |page| session.api.events(&query, from_the_beginning, &page).await).await?;
    if !from_the_beginning {
        events.reverse();
    }
    if events.is_empty() {
        session.out.say("Nothing of this has happened, or it is not kept any more.");
    }
    for event in &events {
        write(session.out, event)?;
    }
    Ok(())
}

async fn follow(session: &Session, query: EventQuery, limit: Option<usize>) -> Outcome {
    let mut stream = session.api.event_stream(query);
    let (mut told, mut lost) = (0, false);
    while limit.is_none_or(|limit| told < limit) {
        match stream.next().await? {
            Streamed::Event(event) => {
                write(session.out, &event)?;
                told += 1;
            }
            Streamed::Gap(gap) => {
                session.out.must_say(format!("warning: {}", gap.message));
                if session.out.format != Format::Table {
                    write_gap(session.out, &gap)?;
                }
            }
            Streamed::Connected if lost => {
                lost = false;
                session.out.say("Connected again; nothing was missed unless said so.");
            }
            Streamed::Connected => {}
            Streamed::Lost(error) => {
                lost = true;
                session.out.say(format!("Lost the connection ({error}); trying again."));
            }
        }
    }
    Ok(())
}

/// One line for each, so that programs can read them as they come.
fn write(out: Output, event: &Event) -> Outcome {
    match out.format {
        Format::Table => out.data(&line(out, event)),
        Format::Json | Format::Yaml => write_data(out, event),
    }
}

fn write_gap(out: Output, gap: &EventGap) -> Outcome {
    #[derive(Serialize)]
    struct Gap<'a> {
        gap: &'a EventGap,
    }
    write_data(out, &Gap { gap })
}

fn write_data<T: Serialize>(out: Output, value: &T) -> Outcome {
    match out.format {
        Format::Yaml => out.data(&format!("---\n{}", to_yaml(value)?)),
        _ => out.data(&(crate::output::to_json_line(value)? + "\n")),
    }
}

fn line(out: Output, event: &Event) -> String {
    let kind = format!("{:KIND_WIDTH$}", event.kind);
    let style = match event.kind.rsplit('.').next() {
        Some("failed" | "silent") => owo_colors::Style::new().red(),
        Some("installed" | "back" | "accepted" | "finished") => owo_colors::Style::new().green(),
        _ => owo_colors::Style::new(),
    };
    let kind = crate::output::paint(&kind, style, out.colour);
    // What devices and clients do is in the sentence; people are not.
    let by = event.actor.as_deref().filter(|actor| actor.starts_with("token:") || actor.starts_with("operator:"));
    let by = by.map(|actor| format!(" ({actor})")).unwrap_or_default();
    format!("{:>6}  {}  {kind}  {}{by}\n", event.id, clock::second(&event.at), event.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_that_reads_alone() {
        let event = Event {
            id: 7,
            at: "2026-01-10T11:59:58.123456Z".into(),
            kind: "client.accepted".into(),
            client: Some("press".into()),
            device: None,
            deployment: None,
            application: None,
            change: None,
            actor: Some("token:ci".into()),
            message: "client `press` was accepted".into(),
            detail: None,
        };
        let expected =
            "     7  2026-01-10T11:59:58Z  client.accepted           client `press` was accepted (token:ci)\n";
        assert_eq!(line(Output::plain(), &event), expected);
    }
}
