//! What was done and what happened, as people call it. Codes stay where programs read them.

use super::capital;

/// An action of the audit: `deployment.create` is "Deploy".
pub(in crate::ui) fn done(action: &str) -> String {
    let word = match action {
        "application.delete" => "Remove from the catalog",
        "application.import" => "Add to the catalog",
        "change.cancel" => "Cancel the rest of a change",
        "change.create" => "Decide on a change",
        "client.accept" => "Let in",
        "client.create" => "Make known",
        "client.enrol" => "Join",
        "client.preload" => "Prepare a first boot",
        "client.pull-credentials" => "Give credentials to pull",
        "client.retire" => "Retire",
        "client.suspend" => "Shut out",
        "client.svid" => "Issue a certificate",
        "deployment.create" => "Deploy",
        "deployment.reconfigure" => "Reconfigure",
        "deployment.remove" => "Remove",
        "deployment.upgrade" => "Change the version",
        "device.label" => "Label",
        "device.remove" => "Remove a device",
        "device.report" => "Report what it can do",
        "enrolment.create" => "Invite",
        "enrolment.withdraw" => "Withdraw an invitation",
        "group.change" => "Change a group",
        "group.create" => "Make a group",
        "group.delete" => "Remove a group",
        "manifest.raise" => "Publish above the version of the device",
        "manifest.renew" => "Tell again what to run",
        "operator.create" => "Make an operator",
        "operator.password" => "Set a password",
        "registry.add" => "Keep a registry",
        "registry.change" => "Change a registry",
        "registry.check" => "Check a registry",
        "registry.remove" => "Remove a registry",
        "registry.copy" => "Copy into the registry",
        "registry.copy-cancel" => "Cancel a copy",
        "registry.copy-end" => "End a copy",
        "registry.delete" => "Delete from the registry",
        "registry.push" => "Push to the registry",
        "session.create" => "Sign in",
        "session.end" => "Sign out",
        "session.refuse" => "Sign-in refused",
        "token.create" => "Make a token",
        "token.revoke" => "Revoke a token",
        other => return spelled(other),
    };
    word.to_owned()
}

/// A kind of event: `deployment.failed` is "Failed".
pub(in crate::ui) fn happened(kind: &str) -> String {
    let word = match kind {
        "application.added" => "Added to the catalog",
        "application.removed" => "Removed from the catalog",
        "change.cancelled" => "Change cancelled",
        "change.created" => "New change",
        "change.finished" => "Everybody told",
        "client.accepted" => "Let in",
        "client.back" => "Heard of again",
        "client.certified" => "New certificate",
        "client.created" => "Made known",
        "client.enrolled" => "Joined",
        "client.heard" => "First heard of",
        "client.invited" => "Invited",
        "client.prepared" => "First boot prepared",
        "client.pull-credentials" => "Credentials to pull",
        "client.raised" => "Device was ahead",
        "client.retired" => "Retired",
        "client.silent" => "Silent",
        "client.suspended" => "Shut out",
        "client.told-again" => "Told again",
        "client.uninvited" => "Invitation withdrawn",
        "deployment.assigned" => "To be installed",
        "deployment.failed" => "Failed",
        "deployment.installed" => "Installed",
        "deployment.installing" => "Installing",
        "deployment.reconfigured" => "Reconfigured",
        "deployment.removed" => "Removed",
        "deployment.removing" => "Removing",
        "deployment.unassigned" => "To be removed",
        "deployment.upgraded" => "Another version",
        "device.labelled" => "Labelled",
        "device.removed" => "Device removed",
        "device.reported" => "Capabilities",
        "group.changed" => "Group changed",
        "group.created" => "New group",
        "group.deleted" => "Group removed",
        "operator.created" => "New operator",
        "operator.password" => "New password",
        "registry.added" => "New registry",
        "registry.changed" => "Registry changed",
        "registry.checked" => "Registry checked",
        "registry.removed" => "Registry removed",
        "server.started" => "Server started",
        "session.ended" => "Signed out",
        "session.opened" => "Signed in",
        "session.refused" => "Sign-in refused",
        "token.created" => "New token",
        "token.revoked" => "Token revoked",
        other => return spelled(other),
    };
    word.to_owned()
}

/// A code nobody has named here, with its dots and dashes as spaces.
fn spelled(code: &str) -> String {
    capital(&code.replace(['.', '-', '_'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_for_people() {
        assert_eq!((done("deployment.create"), happened("deployment.failed")), ("Deploy".into(), "Failed".into()));
        assert_eq!((done("robot.tune-up"), happened("robot.tuned")), ("Robot tune up".into(), "Robot tuned".into()));
    }
}
