//! Deleting the record of a device. A device with deployments cannot be deleted; the dialog says so instead of asking.

use super::client::count_devices_where;
use crate::app::devices::{self, BlockingDeployment};
use crate::app::{fleet, overview};
use crate::ui::confirm::{Confirmation, confirm as ask_for};
use crate::ui::form::Posted;
use crate::ui::routes::query::device_link;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::devices::DeviceState;

/// Deployments listed by name; the rest are counted.
const NAMED_MAX: usize = 10;

#[derive(Template)]
#[template(path = "devices/record_in_use.html", blocks = ["live", "nav"])]
struct RecordInUsePage {
    shell: Shell,
    device: String,
    deployments: Vec<BlockingDeployment>,
    more: u64,
    back: String,
}
pages!(RecordInUsePage);

pub(super) async fn confirm(visit: &Visit, client: &str, device: &str) -> PageResult {
    let listed = fleet::get(&visit.state, client, device).await?;
    let back = device_link(client, device);
    let mut stored = devices::stored_by(&visit.state, client, device).await?;
    if !stored.is_empty() {
        let names = &overview::get(&visit.state).await?.names;
        let more = stored.len().saturating_sub(NAMED_MAX) as u64;
        stored.truncate(NAMED_MAX);
        for one in &mut stored {
            if let Some(name) = names.get(&one.application) {
                one.application.clone_from(name);
            }
        }
        let shell = visit.shell(Section::Devices, format!("The record of {device} cannot be deleted yet")).await?;
        return visit.show(&RecordInUsePage { shell, device: device.to_owned(), deployments: stored, more, back });
    }
    let below = format!("{device}/");
    let behind = count_devices_where(visit, client, |other| other.starts_with(&below)).await?;
    let mut text = vec![
        "The record of the device and its labels are deleted. The device reappears if its client reports it again."
            .to_owned(),
    ];
    if behind.number > 0 || behind.more {
        text.push(format!(
            "It is a gateway: {} behind it {} deleted as well.",
            behind.words("device"),
            if behind.number == 1 && !behind.more { "is" } else { "are" }
        ));
    }
    if listed.device.state != DeviceState::Blocked {
        text.push(
            "Its identity stays approved, so the device reappears if it still exists. Decommission it to block it."
                .to_owned(),
        );
    }
    let all = super::client::PartialCount { number: behind.number + 1, more: behind.more };
    let confirmation = Confirmation {
        title: format!("Delete the record of {device}?"),
        devices: all.touched(&mut text),
        text,
        action: back.clone(),
        fields: vec![("action", "forget".to_owned()), ("revision", listed.device.revision.to_string())],
        verb: "delete",
        button: match (all.number, all.more) {
            (1, false) => "Delete record".to_owned(),
            _ => format!("Delete {}", all.words("record")),
        },
        danger: true,
        back,
    };
    ask_for(visit, Section::Devices, confirmation).await
}

pub(super) async fn act(client: &str, device: &str, posted: Posted) -> PageResult {
    let below = format!("{device}/");
    let behind = count_devices_where(&posted.visit, client, |other| other.starts_with(&below)).await?;
    let revision = posted.form.number("revision");
    devices::delete(posted.state(), posted.caller(), client, device, posted.comment(), revision).await?;
    let notice = match behind.number {
        0 => format!("Record of {device} deleted."),
        number => format!("Records of {device} and {} behind it deleted.", words::count(number, "device")),
    };
    Ok(go("/devices", Some(("record-deleted", &notice))))
}
