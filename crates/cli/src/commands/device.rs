//! `margrave device`, and how the command line refers to devices.

use super::{CommentArgs, LimitArgs, Session, YesArgs, device_name, every, lookup};
use crate::clock;
use crate::failure::Outcome;
use crate::output::{Output, plural};
use indexmap::IndexMap;
use margrave_api::client::{DeploymentQuery, DeviceQuery};
use margrave_api::deployments::Deployment;
use margrave_api::devices::{Device, DeviceRef, UpdateDevice, known};
use margrave_api::lookup::LookupKind;

/// Runtime note of a simulated device and of its deployments.
pub(super) const SIMULATED: &str = "simulated: applications are not really installed on this device
(configure `[compose]` or `[kubernetes]` for its agent to run real workloads)";

const NO_RUNTIME: &str = "none enabled: no applications run on this device
(`margrave-agent status` on the device prints the lines to add to its settings)";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeviceCommand {
    /// Show all devices
    #[command(visible_alias = "ls")]
    List {
        /// Only devices with these labels, such as `site=graz,line in (1,2),!spare`
        #[arg(long, short = 'l', value_name = "SELECTOR")]
        selector: Option<String>,
        /// Only devices of this client
        #[arg(long)]
        client: Option<String>,
        /// Only devices whose id or client id contains this text
        #[arg(long, value_name = "TEXT", conflicts_with = "client")]
        text: Option<String>,
        /// Only devices in this state
        #[arg(long, value_parser = ["online", "updating", "failed", "offline", "blocked"], conflicts_with = "client")]
        state: Option<String>,
        /// Sort by `device`, `state`, `site` or `last-seen`; `-` in front sorts descending: `--sort=-last-seen`
        #[arg(long, value_name = "COLUMN", allow_hyphen_values = true, conflicts_with = "client")]
        sort: Option<String>,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Show one device: properties, labels, deployments
    Show {
        /// Device id, or client/device if the id is not unique
        device: String,
    },
    /// Explain a device: desired state, observed state, what it waits for, next steps
    Explain {
        /// Device id, or client/device if the id is not unique
        device: String,
    },
    /// Set or remove labels of a device
    #[command(after_help = "Examples:
  margrave device label press-01 site=graz line=3
  margrave device label press-01 spare-          # removes the label `spare`

Labels that the device itself reports are separate and read-only.")]
    Label {
        /// Device id, or client/device if the id is not unique
        device: String,
        /// NAME=VALUE sets a label, NAME- removes it
        #[arg(required = true, value_name = "NAME=VALUE|NAME-", value_parser = label)]
        labels: Vec<(String, Option<String>)>,
        #[command(flatten)]
        reason: CommentArgs,
    },
    /// Delete the record of a device and its children; it reappears if its client reports it again
    #[command(visible_alias = "rm")]
    Delete {
        /// Device id, or client/device if the id is not unique
        device: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

fn label(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), Some(value.to_owned()))),
        None if text.len() > 1 && text.ends_with('-') => Ok((text[..text.len() - 1].to_owned(), None)),
        _ => Err("expected NAME=VALUE to set a label or NAME- to remove it".to_owned()),
    }
}

pub(crate) async fn run(command: DeviceCommand, session: &Session) -> Outcome {
    match command {
        DeviceCommand::List { selector, client, text, state, sort, limit } => {
            let all = text.is_none() && state.is_none() && sort.is_none();
            let query = DeviceQuery { selector: selector.clone(), text, state, sort };
            let devices = every(limit.get(), async |page| {
                if all {
                    return session.api.devices(selector.as_deref(), client.as_deref(), &page).await;
                }
                session.api.find_devices(&query, &page).await
            })
            .await?;
            if devices.is_empty() && all && selector.is_none() && client.is_none() {
                session.out.say("No devices; `margrave client enrollment-token NAME` creates a token to enroll one.");
            }
            session.out.show(&devices, |out| table(out, &devices))
        }
        DeviceCommand::Show { device } => show(session, &device).await,
        DeviceCommand::Explain { device } => {
            let found = find(session, &device).await?;
            let explanation = session.api.explain_device(&found.client, &found.device).await?;
            session.out.show(&explanation, |out| super::explain::render(out, &explanation))
        }
        DeviceCommand::Label { device, labels, reason } => {
            let found = find(session, &device).await?;
            let body = UpdateDevice { labels: labels.into_iter().collect(), comment: reason.comment };
            let device = session.api.update_device(&found.client, &found.device, &body, None).await?;
            session.out.show(&device, |out| {
                out.fields(&[
                    ("Device", device_name(&device.client, &device.device)),
                    ("Operator labels", operator_labels(&device.operator_labels)),
                ])
            })
        }
        DeviceCommand::Delete { device, reason, yes } => {
            let found = find(session, &device).await?;
            let name = device_name(&found.client, &found.device);
            if !yes.yes {
                let below = format!("{}/", found.device);
                let all = every(None, async |page| session.api.devices(None, Some(&found.client), &page).await).await?;
                let children = all.iter().filter(|one| one.device.starts_with(&below)).count();
                let question = match children {
                    0 => format!("Delete device {name}?"),
                    _ => format!("Delete device {name} and {} behind it?", plural(children as u64, "device")),
                };
                session.sure(&question, &yes)?;
            }
            session.api.delete_device(&found.client, &found.device, reason.comment.as_deref()).await?;
            session.out.say(format!("Deleted device {name}."));
            Ok(())
        }
    }
}

pub(crate) fn table(out: Output, devices: &[Device]) -> String {
    let now = clock::now();
    out.table(
        &["device", "state", "hosts", "architecture", "vendor and model", "labels", "last seen"],
        devices.iter().map(|device| {
            let labels = [device_labels(device), operator_labels(&device.operator_labels)];
            let labels: Vec<_> = labels.into_iter().filter(|labels| !labels.is_empty()).collect();
            let seen = clock::contact(device.last_seen_at.as_deref(), now);
            vec![
                device_name(&device.client, &device.device),
                device.state.as_str().to_owned(),
                hosts(device, ",", "nothing"),
                device.architectures.join(","),
                device.made_by().unwrap_or_default(),
                labels.join(","),
                if device.offline { format!("{seen} (offline)") } else { seen },
            ]
        }),
    )
}

async fn show(session: &Session, text: &str) -> Outcome {
    let found = find(session, text).await?;
    let device = session.api.device(&found.client, &found.device).await?;
    let query = DeploymentQuery {
        client: Some(device.client.clone()),
        device: Some(device.device.clone()),
        ..DeploymentQuery::default()
    };
    let deployments = every(None, async |page| session.api.deployments(&query, &page).await).await?;
    session.out.show(&device, |out| render(out, &device, &deployments))
}

fn render(out: Output, device: &Device, deployments: &[Deployment]) -> String {
    let now = clock::now();
    let part = |pointer: &str| {
        let value = device.capabilities.as_ref().and_then(|capabilities| capabilities.pointer(pointer));
        value.map(crate::prompt::plain).unwrap_or_default()
    };
    let mut text = out.fields(&[
        ("Device", device.device.clone()),
        ("Client", device.client.clone()),
        ("Vendor and model", made_by(device)),
        ("Hosts", hosts(device, ", ", "none (gateway only)")),
        ("Runtime", runtime(device).to_owned()),
        ("Architectures", device.architectures.join(", ")),
        ("Memory", part("/properties/memory")),
        ("Storage", part("/properties/storage")),
        ("Device labels", device_labels(device)),
        ("Operator labels", operator_labels(&device.operator_labels)),
        ("First reported", clock::ago(&device.first_reported_at, now)),
        ("Last reported", clock::ago(&device.reported_at, now)),
        ("Last seen", device.last_seen_at.as_deref().map(|at| clock::contact(Some(at), now)).unwrap_or_default()),
        ("Offline", if device.offline { "yes".to_owned() } else { String::new() }),
        ("Warnings", device.warnings.join("\n")),
    ]);
    text.push_str(&out.heading("Deployments"));
    text.push_str(&super::deployment::table(out, deployments));
    text
}

fn runtime(device: &Device) -> &'static str {
    match (device.simulated, device.no_runtime) {
        (true, _) => SIMULATED,
        (_, true) => NO_RUNTIME,
        _ => "",
    }
}

/// The deployment types that the device runs.
fn hosts(device: &Device, between: &str, nothing: &str) -> String {
    let types = device.deployment_types.join(between);
    if device.no_runtime {
        return "none (no runtime)".to_owned();
    }
    match (device.hosts_workloads, device.simulated) {
        (true, true) => format!("{types} (simulated)"),
        (true, false) => types,
        (false, _) => nothing.to_owned(),
    }
}

/// Vendor, model and serial number, as far as reported.
fn made_by(device: &Device) -> String {
    let Device { vendor, model_number, serial_number, .. } = device;
    let parts = [("", vendor), ("model ", model_number), ("serial ", serial_number)];
    let parts = parts.into_iter().filter_map(|(word, text)| Some(format!("{word}{}", known(text)?)));
    parts.collect::<Vec<_>>().join(", ")
}

fn device_labels(device: &Device) -> String {
    let labels = device.device_labels.iter().map(|(name, value)| format!("{name}={}", crate::prompt::plain(value)));
    labels.collect::<Vec<_>>().join(",")
}

fn operator_labels(labels: &IndexMap<String, String>) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Resolves `client/device`, or the device id alone if only one client has it.
/// A trailing `/*` (the gateway selects) is preserved.
pub(crate) async fn find(session: &Session, text: &str) -> Outcome<DeviceRef> {
    let (name, star) = match text.strip_suffix("/*") {
        Some(gateway) => (gateway, "/*"),
        None => (text, ""),
    };
    let found = lookup::only(session, LookupKind::Device, name).await?;
    Ok(DeviceRef { client: found.client.unwrap_or_default(), device: found.id + star })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_with_a_value_and_removed_with_a_dash() {
        assert_eq!(label("site=graz"), Ok(("site".into(), Some("graz".into()))));
        assert_eq!(label("site="), Ok(("site".into(), Some(String::new()))));
        assert_eq!(label("spare-"), Ok(("spare".into(), None)));
        assert!(label("-").is_err());
        assert!(label("=x").is_err());
        assert!(label("site").is_err());
    }
}
