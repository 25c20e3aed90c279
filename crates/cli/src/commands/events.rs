//! `margrave events`: past events, and new ones with `--follow`.

use super::{LimitArgs, Session, every};
use crate::clock;
use crate::failure::Outcome;
use crate::output::{Format, Output, to_yaml};
use margrave_api::client::{EventQuery, StreamItem};
use margrave_api::events::{Event, EventGap};
use serde::Serialize;

/// Default number of events.
const EVENTS_DEFAULT: usize = 50;
/// Width of the longest event kind.
const KIND_WIDTH: usize = 24;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave events --follow
  margrave events --since 1h --kind deployment.failed
  margrave events --since 2026-09-21 --until 2026-09-21
  margrave events --follow --device press-07 -o json
  margrave events --follow --after 4711   # resume where another run stopped")]
pub(crate) struct EventsArgs {
    /// Follow new events until Ctrl-C; survives server restarts
    #[arg(long, short)]
    follow: bool,
    /// Only this kind or prefix: `deployment.failed`, `deployment`, `client`
    #[arg(long)]
    kind: Option<String>,
    /// Only events of this client
    #[arg(long)]
    client: Option<String>,
    /// Only events of this device
    #[arg(long)]
    device: Option<String>,
    /// Only events of this deployment
    #[arg(long, value_name = "ID")]
    deployment: Option<String>,
    /// Only events of this application
    #[arg(long = "app", value_name = "APPLICATION")]
    application: Option<String>,
    /// Only events of this rollout
    #[arg(long, value_name = "ID")]
    rollout: Option<String>,
    /// Only events since a time such as 2026-09-21T08:00:00Z, a day in UTC, or a span such as 90s, 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = clock::parse_instant)]
    since: Option<jiff::Timestamp>,
    /// Only events before a time, the end of a day in UTC, or a span back from now
    #[arg(long, value_name = "TIME", value_parser = clock::parse_end, conflicts_with = "follow")]
    until: Option<jiff::Timestamp>,
    /// Only events after the event with this id; 0 for all stored events
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
        rollout: args.rollout,
        after: args.after.or_else(|| since.as_ref().filter(|_| args.follow).map(|_| 0)),
        since,
        until: args.until.map(|at| at.to_string()),
    };
    if args.follow {
        let limit = args.limit.get();
        return tokio::select! {
            ended = follow(session, query, limit) => ended,
            // Ctrl-C is the normal end of following events.
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
    }
    // With a start time, read forward from it; otherwise read the newest. Both are shown in chronological order.
    let from_the_beginning = query.since.is_some() || query.after.is_some();
    let limit = args.limit.get().or(if from_the_beginning { None } else { Some(EVENTS_DEFAULT) });
    let mut events = every(limit, async |page| session.api.events(&query, from_the_beginning, &page).await).await?;
    if !from_the_beginning {
        events.reverse();
    }
    if events.is_empty() {
        session.out.say("No matching events are stored.");
    }
    for event in &events {
        write(session.out, event)?;
    }
    Ok(())
}

async fn follow(session: &Session, query: EventQuery, limit: Option<usize>) -> Outcome {
    let mut stream = session.api.event_stream(query);
    let (mut shown, mut lost) = (0, false);
    while limit.is_none_or(|limit| shown < limit) {
        match stream.next().await? {
            StreamItem::Event(event) => {
                write(session.out, &event)?;
                shown += 1;
            }
            StreamItem::Gap(gap) => {
                session.out.must_say(format!("warning: {}", gap.message));
                if session.out.format != Format::Table {
                    write_gap(session.out, &gap)?;
                }
            }
            StreamItem::Connected if lost => {
                lost = false;
                session.out.say("Reconnected; missed events are reported as gaps.");
            }
            StreamItem::Connected => {}
            StreamItem::Lost(error) => {
                lost = true;
                session.out.say(format!("Lost the connection ({error}); reconnecting."));
            }
        }
    }
    Ok(())
}

/// One line per event, so that programs can read a stream.
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
        Some("failed" | "offline") => owo_colors::Style::new().red(),
        Some("installed" | "online" | "accepted" | "finished") => owo_colors::Style::new().green(),
        _ => owo_colors::Style::new(),
    };
    let kind = crate::output::paint(&kind, style, out.color);
    // The message already names devices and clients, but not operators.
    let by = event.actor.as_deref().filter(|actor| actor.starts_with("token:") || actor.starts_with("operator:"));
    let by = by.map(|actor| format!(" ({actor})")).unwrap_or_default();
    format!("{:>6}  {}  {kind}  {}{by}\n", event.id, clock::second(&event.at), event.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_an_event_as_one_self_contained_line() {
        let event = Event {
            id: 7,
            at: "2026-01-10T11:59:58.123456Z".into(),
            kind: "client.accepted".into(),
            client: Some("press".into()),
            device: None,
            deployment: None,
            application: None,
            rollout: None,
            actor: Some("token:ci".into()),
            message: "client `press` was accepted".into(),
            detail: None,
        };
        let expected =
            "     7  2026-01-10T11:59:58Z  client.accepted           client `press` was accepted (token:ci)\n";
        assert_eq!(line(Output::plain(), &event), expected);
    }
}
