//! Confirmations for actions on a rollout.

use crate::ui::confirm::Confirmation;
use crate::ui::words;
use margrave_api::deployments::DeploymentState;
use margrave_api::rollouts::{Rollout, RolloutKind};

/// Confirms the cancellation of a rollout, or says that nothing is left to cancel.
pub(super) fn cancelling(name: &str, rollout: &Rollout) -> Confirmation {
    let left = if rollout.finished { 0 } else { rollout.total.saturating_sub(rollout.published) };
    let goes_on = match rollout.published {
        0 => String::new(),
        1 => "The device that already has it continues; change or remove its deployment to stop it.".to_owned(),
        published => format!(
            "{} that already have it continue; change or remove their deployments to stop them.",
            words::count(published, "device")
        ),
    };
    let back = format!("/rollouts/{}", rollout.id);
    if left == 0 {
        let title = "Nothing left to cancel".to_owned();
        let every = "The rollout is already published to all of its devices, or was cancelled before.".to_owned();
        return Confirmation { title, text: vec![every, goes_on], back, ..Confirmation::default() };
    }
    let stays = match left {
        1 => "1 device that does not have it yet stays unchanged.".to_owned(),
        left => format!("{} that do not have it yet stay unchanged.", words::count(left, "device")),
    };
    Confirmation {
        title: format!("Cancel this rollout of {name}?"),
        text: vec![stays, goes_on],
        devices: Some(left),
        action: back.clone(),
        fields: vec![("action", "cancel".to_owned())],
        verb: "cancel",
        button: "Cancel rollout".to_owned(),
        danger: true,
        back,
    }
}

/// Confirms the retry of all failed deployments.
pub(super) fn retrying_failed(name: &str, rollout: &Rollout) -> Confirmation {
    let failed = rollout.deployments.as_ref().map(|counts| counts.of(DeploymentState::Failed)).unwrap_or_default();
    let back = format!("/rollouts/{}", rollout.id);
    if failed == 0 {
        let title = "No deployment has failed".to_owned();
        return Confirmation {
            title,
            text: vec!["There is nothing to retry.".to_owned()],
            back,
            ..Confirmation::default()
        };
    }
    let devices = words::count(failed, "device");
    Confirmation {
        title: format!("Retry {name} on {devices}?"),
        text: vec!["Each device gets the same configuration as a new revision and retries at once, even if its failure policy stopped it or rolled it back. Running components are not changed.".to_owned()],
        devices: Some(failed),
        action: back.clone(),
        fields: vec![("action", "again".to_owned())],
        verb: "retry",
        button: format!("Retry on {devices}"),
        danger: false,
        back,
    }
}

/// Confirms the withdrawal of a rollout on offline devices.
pub(super) fn withdrawing_offline(name: &str, rollout: &Rollout) -> Confirmation {
    let offline =
        rollout.deployments.as_ref().map(|counts| counts.of(DeploymentState::DeviceOffline)).unwrap_or_default();
    let back = format!("/rollouts/{}", rollout.id);
    let nothing = |why: &str| Confirmation {
        title: "Nothing to withdraw".to_owned(),
        text: vec![why.to_owned()],
        back: back.clone(),
        ..Confirmation::default()
    };
    if rollout.kind == RolloutKind::Remove {
        return nothing("Devices may have started the removal. Deploy the application again instead.");
    }
    if !rollout.finished {
        return nothing("The rollout is still being published. Cancel it first.");
    }
    if offline == 0 {
        return nothing("This rollout has no offline devices left.");
    }
    let find = match rollout.kind {
        RolloutKind::Create => "When they reconnect, they uninstall it, including partial installations.",
        RolloutKind::Upgrade => "When they reconnect, they get their previous version and configuration.",
        RolloutKind::Reconfigure | RolloutKind::Remove => "When they reconnect, they get their previous configuration.",
    };
    let devices = words::count(offline, "offline device");
    Confirmation {
        title: format!("Withdraw {name} {} on {devices}?", rollout.version),
        text: vec![
            "This affects the offline devices only. The other devices stay unchanged.".to_owned(),
            find.to_owned(),
        ],
        devices: Some(offline),
        action: back.clone(),
        fields: vec![("action", "withdraw".to_owned())],
        verb: "withdraw",
        button: format!("Withdraw on {devices}"),
        danger: true,
        back,
    }
}
