//! What is asked before something is done with a whole change.

use crate::ui::ask::Question;
use crate::ui::words;
use margrave_api::changes::{Change, ChangeKind};
use margrave_api::deployments::Convergence;

/// What is asked before the rest of a change is cancelled; where nothing is left, only that.
pub(super) fn cancelling(name: &str, change: &Change) -> Question {
    let left = if change.finished { 0 } else { change.total.saturating_sub(change.published) };
    let goes_on = match change.published {
        0 => String::new(),
        1 => "The device told already goes on; change or remove what it got if it should not.".to_owned(),
        told => format!(
            "The {} told already go on; change or remove what they got if they should not.",
            words::count(told, "device")
        ),
    };
    let back = format!("/changes/{}", change.id);
    if left == 0 {
        let title = "Nothing is left to cancel".to_owned();
        let every = "Every device this change is for was told already, or it was cancelled before.".to_owned();
        return Question { title, text: vec![every, goes_on], back, ..Question::default() };
    }
    let stays = match left {
        1 => "1 device not told yet stays as it is.".to_owned(),
        left => format!("{} not told yet stay as they are.", words::count(left, "device")),
    };
    Question {
        title: format!("Cancel the rest of this change of {name}?"),
        text: vec![stays, goes_on],
        devices: Some(left),
        action: back.clone(),
        fields: vec![("action", "cancel".to_owned())],
        button: "Cancel the rest".to_owned(),
        danger: true,
        back,
    }
}

/// What is asked before everything that failed is tried again.
pub(super) fn trying_again(name: &str, change: &Change) -> Question {
    let failed = change.deployments.as_ref().map(|counts| counts.of(Convergence::Failed)).unwrap_or_default();
    let back = format!("/changes/{}", change.id);
    if failed == 0 {
        let title = "Nothing of it has failed".to_owned();
        return Question {
            title,
            text: vec!["There is nothing to try again.".to_owned()],
            back,
            ..Question::default()
        };
    }
    let devices = words::count(failed, "device");
    Question {
        title: format!("Try {name} again on {devices}?"),
        text: vec!["Each device gets the same once more as a new revision, so that it tries at once, also where it has stopped or gone back by its failure policy. What runs already is left alone.".to_owned()],
        devices: Some(failed),
        action: back.clone(),
        fields: vec![("action", "again".to_owned())],
        button: format!("Try again on {devices}"),
        danger: false,
        back,
    }
}

/// What is asked before a change is called off where nobody hears of the device.
pub(super) fn calling_off(name: &str, change: &Change) -> Question {
    let silent = change.deployments.as_ref().map(|counts| counts.of(Convergence::NotHeardOf)).unwrap_or_default();
    let back = format!("/changes/{}", change.id);
    let nothing = |why: &str| Question {
        title: "Nothing can be called off".to_owned(),
        text: vec![why.to_owned()],
        back: back.clone(),
        ..Question::default()
    };
    if change.kind == ChangeKind::Remove {
        return nothing("A device may have begun a removal. Deploy the application again instead.");
    }
    if !change.finished {
        return nothing("Devices are still being told. Cancel the rest first.");
    }
    if silent == 0 {
        return nothing("This change waits for no device that does not call.");
    }
    let find = match change.kind {
        ChangeKind::Create => "When they come back they find it removed; what was begun of it is taken away.",
        ChangeKind::Upgrade => "When they come back they find the version and the answers they had before.",
        ChangeKind::Reconfigure | ChangeKind::Remove => "When they come back they find the answers they had before.",
    };
    let devices = words::count(silent, "device");
    Question {
        title: format!("Call {name} {} off on {devices}?", change.version),
        text: vec![
            "These are the devices that do not call. What the others have stays as it is.".to_owned(),
            find.to_owned(),
        ],
        devices: Some(silent),
        action: back.clone(),
        fields: vec![("action", "call-off".to_owned())],
        button: format!("Call it off on {devices}"),
        danger: true,
        back,
    }
}
