use super::{PublishProblem, SkipReason, ValueProblem};
use margo::ids::DeploymentId;
use serde_json::json;
use uuid::Uuid;

fn check(reason: &SkipReason, kind: &str, text: &str) {
    assert_eq!((reason.kind(), reason.to_string().as_str()), (kind, text));
    let stored = reason.data().to_string();
    let read = SkipReason::from_parts(reason.kind().to_owned(), serde_json::from_str(&stored).unwrap());
    assert_eq!(&read, reason);
}

#[test]
fn renders_and_reads_back_every_reason() {
    let id = DeploymentId(Uuid::from_u128(7));
    let taken = SkipReason::AlreadyDeployed { deployment: Some(id) };
    check(&taken, "already-deployed", &format!("already has it, as deployment {id}; upgrade or reconfigure that one"));
    check(&taken.without_id(), "already-deployed", "already has it; upgrade or reconfigure that one");
    let another = "the deployment belongs to another client";
    check(&SkipReason::BelongsToAnotherClient, "belongs-to-another-client", another);
    let changed = "it was changed again in the meantime, or its device is online again";
    check(&SkipReason::ChangedOrOnline, "changed-or-online", changed);
    let client = SkipReason::ClientNotFound { client: "press".into() };
    check(&client, "client-not-found", "client `press` does not exist");
    let unpublished = |problem| SkipReason::ClientCannotBePublished { problem, detail: "the document is lost".into() };
    let exhausted = "its client has no manifest versions left; enroll the device under another client id";
    check(&unpublished(PublishProblem::VersionsExhausted), "client-cannot-be-published", exhausted);
    let unreadable = "its desired state cannot be read: the document is lost; restore the database from a backup";
    check(&unpublished(PublishProblem::Unreadable), "client-cannot-be-published", unreadable);
    check(&SkipReason::DeploymentIdTaken, "deployment-id-taken", "a deployment with this id already exists");
    check(&SkipReason::DeploymentGone, "deployment-gone", "the deployment no longer exists");
    check(&SkipReason::DeploymentNotFound, "deployment-not-found", "the deployment does not exist");
    check(&SkipReason::DeploymentRemoved, "deployment-removed", "the deployment was removed in the meantime");
    check(&SkipReason::DuplicateTarget, "duplicate-target", "the batch contains the deployment twice");
    let incompatible = SkipReason::Incompatible { explanation: "profile `a` (compose): no GPU".into() };
    check(&incompatible, "incompatible", "profile `a` (compose): no GPU");
    let problems = vec![
        ValueProblem { field: "interval".into(), message: Some("must be a number".into()) },
        ValueProblem { field: "password".into(), message: None },
    ];
    let values = "interval: must be a number; password: its value is not accepted";
    check(&SkipReason::InvalidValues { problems }, "invalid-values", values);
    check(&SkipReason::OnAnotherVersion { version: "2.0".into() }, "on-another-version", "it is on 2.0 now");
    let revision = "the deployment is now at revision 3, the rollout was planned for 2";
    check(&SkipReason::RevisionChanged { current: 3, expected: 2 }, "revision-changed", revision);
    check(&SkipReason::Unchanged, "unchanged", "nothing would change");
    let version = SkipReason::VersionNotFound { application: "vision".into(), version: "1.2".into() };
    check(&version, "version-not-found", "`vision` 1.2 is no longer in the catalog");
    let document = format!("the document is for deployment {id}");
    check(&SkipReason::WrongDocument { deployment: id }, "wrong-document", &document);
}

#[test]
fn keeps_kinds_and_data_that_it_does_not_know() {
    let later = SkipReason::Other { kind: "maintenance-hold".into(), data: json!({ "until": "noon" }) };
    check(&later, "maintenance-hold", "another reason (maintenance-hold)");
    let damaged = SkipReason::from_parts("revision-changed".into(), json!({ "current": "x" }));
    assert_eq!(damaged, SkipReason::Other { kind: "revision-changed".into(), data: json!({ "current": "x" }) });
}
