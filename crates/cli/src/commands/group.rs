//! `margrave group`: named label selectors.

use super::{CommentArgs, LimitArgs, Session, YesArgs, every};
use crate::clock;
use crate::failure::Outcome;
use crate::output::{Output, plural};
use margrave_api::devices::{Group, PutGroup};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GroupCommand {
    /// Show all groups
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Show one group
    Show {
        /// Group name
        name: String,
    },
    /// Create a group or update its selector
    #[command(after_help = "Examples:
  margrave group put graz-presses --selector 'site=graz,line in (1,2)' --description 'Presses in Graz'

A group is a named selector: matching devices that are added later belong to it too.")]
    Put {
        /// Group name
        name: String,
        /// Label selector, such as `site=graz,line in (1,2),!spare`
        #[arg(long, short = 'l', value_name = "SELECTOR")]
        selector: String,
        /// Description; an existing group keeps its own unless given, and `""` clears it
        #[arg(long)]
        description: Option<String>,
        #[command(flatten)]
        reason: CommentArgs,
    },
    /// Delete a group; its devices and their deployments stay
    #[command(visible_alias = "rm")]
    Delete {
        /// Group name
        name: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Show the current devices of a group
    Devices {
        /// Group name
        name: String,
        #[command(flatten)]
        limit: LimitArgs,
    },
}

pub(crate) async fn run(command: GroupCommand, session: &Session) -> Outcome {
    match command {
        GroupCommand::List(limit) => {
            let groups = every(limit.get(), async |page| session.api.groups(&page).await).await?;
            session.out.show(&groups, |out| {
                out.table(
                    &["group", "selector", "description"],
                    groups.iter().map(|group| {
                        vec![group.name.clone(), group.selector.clone(), group.description.clone().unwrap_or_default()]
                    }),
                )
            })
        }
        GroupCommand::Show { name } => {
            let group = session.api.group(&name).await?;
            session.out.show(&group, |out| render(out, &group))
        }
        GroupCommand::Put { name, selector, description, reason } => {
            let body = PutGroup { selector, description, comment: reason.comment };
            let group = put(session, &name, body).await?;
            session.out.show(&group, |out| render(out, &group))
        }
        GroupCommand::Delete { name, reason, yes } => {
            if !yes.yes {
                let devices = every(None, async |page| session.api.group_devices(&name, &page).await).await?.len();
                session.sure(
                    &format!(
                        "Delete group {name}? It has {}; devices are not deleted.",
                        plural(devices as u64, "device")
                    ),
                    &yes,
                )?;
            }
            session.api.delete_group(&name, reason.comment.as_deref(), None).await?;
            session.out.say(format!("Deleted group {name}."));
            Ok(())
        }
        GroupCommand::Devices { name, limit } => {
            let devices = every(limit.get(), async |page| session.api.group_devices(&name, &page).await).await?;
            session.out.show(&devices, |out| super::device::table(out, &devices))
        }
    }
}

/// Creates the group, or updates it if it exists. In this order, so that the same command with the same idempotency key
/// sends the same requests again, whatever the first result was.
async fn put(session: &Session, name: &str, mut body: PutGroup) -> Outcome<Group> {
    match session.api.put_group(name, &body, None).await {
        Err(error) if error.code() == Some("exists") => {}
        other => return Ok(other?),
    }
    if body.description.is_none() {
        body.description = session.api.group(name).await?.description;
    }
    Ok(session.api.change_group(name, &body).await?)
}

fn render(out: Output, group: &Group) -> String {
    out.fields(&[
        ("Group", group.name.clone()),
        ("Selector", group.selector.clone()),
        ("Description", group.description.clone().unwrap_or_default()),
        ("Created", clock::ago(&group.created_at, clock::now())),
        ("Revision", group.revision.to_string()),
    ])
}
