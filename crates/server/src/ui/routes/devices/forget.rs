//! Forgetting a device. While something is meant to run there it stays, and the question says so instead of asking.

use super::client::devices_where;
use crate::app::devices::{self, Keeps};
use crate::app::{fleet, overview};
use crate::ui::ask::{Question, ask as ask_for};
use crate::ui::form::Posted;
use crate::ui::routes::query::device_link;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use margrave_core::model::DeviceState;

/// Deployments that are named; the rest are counted.
const NAMED_MAX: usize = 10;

#[derive(Template)]
#[template(path = "devices/kept.html", blocks = ["live", "nav"])]
struct KeptPage {
    shell: Shell,
    device: String,
    deployments: Vec<Keeps>,
    more: u64,
    back: String,
}
pages!(KeptPage);

pub(super) async fn ask(visit: &Visit, client: &str, device: &str) -> Answer {
    let listed = fleet::get(&visit.state, client, device).await?;
    let back = device_link(client, device);
    let mut kept = devices::kept_by(&visit.state, client, device).await?;
    if !kept.is_empty() {
        let names = &overview::get(&visit.state).await?.names;
        let more = kept.len().saturating_sub(NAMED_MAX) as u64;
        kept.truncate(NAMED_MAX);
        for one in &mut kept {
            if let Some(name) = names.get(&one.application) {
                one.application.clone_from(name);
            }
        }
        let shell = visit.shell(Section::Devices, format!("{device} cannot be forgotten yet")).await?;
        return visit.show(&KeptPage { shell, device: device.to_owned(), deployments: kept, more, back });
    }
    let below = format!("{device}/");
    let behind = devices_where(visit, client, |other| other.starts_with(&below)).await?;
    let mut text = vec!["The device and its labels are forgotten until its client reports it again.".to_owned()];
    if behind.number > 0 || behind.more {
        text.push(format!(
            "It is a gateway: {} behind it {} forgotten as well.",
            behind.words("device"),
            if behind.number == 1 && !behind.more { "is" } else { "are" }
        ));
    }
    if listed.state != DeviceState::ShutOut {
        text.push("Its client stays accepted, so a device that is still there comes back by itself. Retire the client to keep it out.".to_owned());
    }
    let all = super::client::Counted { number: behind.number + 1, more: behind.more };
    let question = Question {
        title: format!("Forget device {device}?"),
        devices: all.touched(&mut text),
        text,
        action: back.clone(),
        fields: vec![("action", "forget".to_owned()), ("revision", listed.device.revision.to_string())],
        button: match (all.number, all.more) {
            (1, false) => "Forget this device".to_owned(),
            _ => format!("Forget {}", all.words("device")),
        },
        danger: true,
        back,
    };
    ask_for(visit, Section::Devices, question).await
}

pub(super) async fn act(client: &str, device: &str, posted: Posted) -> Answer {
    let below = format!("{device}/");
    let behind = devices_where(&posted.visit, client, |other| other.starts_with(&below)).await?;
    let revision = posted.form.number("revision");
    devices::delete(posted.state(), posted.caller(), client, device, posted.reason(), revision).await?;
    let said = match behind.number {
        0 => format!("Device {device} was forgotten."),
        number => format!("Device {device} and {} behind it were forgotten.", words::count(number, "device")),
    };
    Ok(go("/devices", Some(&said)))
}
