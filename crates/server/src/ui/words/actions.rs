//! Labels for audit actions and event kinds. Codes stay where programs read them.

use super::capital;

/// Label of an audit action: `deployment.create` is "Deploy".
pub(in crate::ui) fn done(action: &str) -> String {
    let word = match action {
        "application.delete" => "Remove from the catalog",
        "application.import" => "Add to the catalog",
        "rollout.cancel" => "Cancel rollout",
        "rollout.create" => "Start rollout",
        "client.accept" => "Approve",
        "client.request" => "Request access",
        "client.create" => "Register",
        "client.enroll" => "Enroll",
        "client.preload" => "Prepare first boot",
        "client.pull-credentials" => "Issue pull credentials",
        "client.reject" => "Reject",
        "client.decommission" => "Decommission",
        "client.suspend" => "Suspend",
        "client.svid" => "Issue certificate",
        "deployment.create" => "Deploy",
        "deployment.reconfigure" => "Reconfigure",
        "deployment.remove" => "Remove",
        "deployment.roll-back" => "Roll back",
        "deployment.upgrade" => "Upgrade or downgrade",
        "device.label" => "Label",
        "device.remove" => "Delete device record",
        "device.report" => "Report capabilities",
        "enrollment-token.create" => "Create enrollment token",
        "enrollment-token.revoke" => "Revoke enrollment token",
        "group.update" => "Update group",
        "group.create" => "Create group",
        "group.delete" => "Delete group",
        "manifest.raise" => "Publish a version above that of the device",
        "manifest.republish" => "Retry",
        "operator.create" => "Create operator",
        "operator.password" => "Set password",
        "registry.add" => "Add registry",
        "registry.update" => "Update registry",
        "registry.check" => "Check registry",
        "registry.remove" => "Remove registry",
        "registry.copy" => "Copy into the registry",
        "registry.copy-cancel" => "Cancel copy",
        "registry.copy-end" => "Finish copy",
        "registry.delete" => "Delete from the registry",
        "registry.push" => "Push to the registry",
        "session.create" => "Sign in",
        "session.end" => "Sign out",
        "session.reject" => "Sign-in rejected",
        "token.create" => "Create token",
        "token.revoke" => "Revoke token",
        other => return spelled(other),
    };
    word.to_owned()
}

/// Label of an event kind: `deployment.failed` is "Failed".
pub(in crate::ui) fn happened(kind: &str) -> String {
    let word = match kind {
        "application.added" => "Added to the catalog",
        "application.removed" => "Removed from the catalog",
        "rollout.cancelled" => "Rollout cancelled",
        "rollout.created" => "Rollout started",
        "rollout.finished" => "Rollout published",
        "client.accepted" => "Approved",
        "client.requested" => "Access requested",
        "client.online" => "Online again",
        "client.certified" => "New certificate",
        "client.created" => "Registered",
        "client.enrolled" => "Enrolled",
        "client.connected" => "First connection",
        "enrollment-token.created" => "Enrollment token created",
        "client.prepared" => "First boot prepared",
        "client.pull-credentials" => "Pull credentials issued",
        "client.raised" => "Version raised",
        "client.rejected" => "Rejected",
        "client.decommissioned" => "Decommissioned",
        "client.offline" => "Offline",
        "client.suspended" => "Suspended",
        "client.republished" => "Retry requested",
        "enrollment-token.revoked" => "Enrollment token revoked",
        "deployment.assigned" => "Assigned",
        "deployment.failed" => "Failed",
        "deployment.installed" => "Installed",
        "deployment.installing" => "Installing",
        "deployment.reconfigured" => "Reconfigured",
        "deployment.removed" => "Removed",
        "deployment.removing" => "Removing",
        "deployment.unassigned" => "Removal requested",
        "deployment.rolled-back" => "Rolled back",
        "deployment.upgraded" => "Version changed",
        "device.labeled" => "Labels changed",
        "device.removed" => "Device record deleted",
        "device.reported" => "Capabilities reported",
        "group.updated" => "Group updated",
        "group.created" => "Group created",
        "group.deleted" => "Group deleted",
        "operator.created" => "Operator created",
        "operator.password" => "Password changed",
        "registry.added" => "Registry added",
        "registry.updated" => "Registry updated",
        "registry.checked" => "Registry checked",
        "registry.removed" => "Registry removed",
        "server.started" => "Server started",
        "session.ended" => "Signed out",
        "session.opened" => "Signed in",
        "session.rejected" => "Sign-in rejected",
        "token.created" => "Token created",
        "token.revoked" => "Token revoked",
        other => return spelled(other),
    };
    word.to_owned()
}

/// A code without a label, with dots and dashes as spaces.
fn spelled(code: &str) -> String {
    capital(&code.replace(['.', '-', '_'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_and_events_have_labels() {
        assert_eq!((done("deployment.create"), happened("deployment.failed")), ("Deploy".into(), "Failed".into()));
        assert_eq!((done("robot.tune-up"), happened("robot.tuned")), ("Robot tune up".into(), "Robot tuned".into()));
    }
}
