//! Readiness of an object, from its status in the cluster.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    Ready,
    /// Not ready yet, with the reason.
    Coming(String),
    /// Failed, with the reason.
    Failed(String),
}

/// Kinds without a status are ready when they exist.
pub(super) fn health(object: &Value) -> Health {
    let status = &object["status"];
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => deployment(object),
        "StatefulSet" => stateful_set(object),
        "DaemonSet" => daemon_set(object),
        "ReplicaSet" | "ReplicationController" => {
            if is_behind(object) {
                return not_observed_yet();
            }
            count(number(&status["readyReplicas"]), desired(object))
        }
        "Job" => job(object),
        "Pod" => pod(object),
        "CustomResourceDefinition" => match condition(object, "Established") {
            Some(("True", _)) => Health::Ready,
            _ => Health::Coming("is not established".to_owned()),
        },
        _ => Health::Ready,
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn desired(object: &Value) -> u64 {
    object["spec"]["replicas"].as_u64().unwrap_or(1)
}

/// The controller has not observed the last change yet.
fn is_behind(object: &Value) -> bool {
    number(&object["status"]["observedGeneration"]) < number(&object["metadata"]["generation"])
}

fn not_observed_yet() -> Health {
    Health::Coming("is not yet observed by its controller".to_owned())
}

fn count(ready: u64, desired: u64) -> Health {
    if ready >= desired { Health::Ready } else { Health::Coming(format!("{ready} of {desired} ready")) }
}

/// Status and message of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a Value)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some((found["status"].as_str()?, found))
}

fn deployment(object: &Value) -> Health {
    if is_behind(object) {
        return not_observed_yet();
    }
    let status = &object["status"];
    let desired = desired(object);
    let (updated, all, available) =
        (number(&status["updatedReplicas"]), number(&status["replicas"]), number(&status["availableReplicas"]));
    if updated >= desired && all <= updated && available >= desired {
        return Health::Ready;
    }
    if let Some(("False", condition)) = condition(object, "Progressing")
        && condition["reason"] == "ProgressDeadlineExceeded"
    {
        return Health::Failed(format!("{available} of {desired} ready at its progress deadline"));
    }
    if updated < desired {
        return Health::Coming(format!("{updated} of {desired} updated"));
    }
    if all > updated {
        return Health::Coming(format!("{} of the old revision still running", all - updated));
    }
    count(available, desired)
}

fn stateful_set(object: &Value) -> Health {
    if is_behind(object) {
        return not_observed_yet();
    }
    let status = &object["status"];
    let desired = desired(object);
    let ready = number(&status["readyReplicas"]);
    let by_hand = object["spec"]["updateStrategy"]["type"] == "OnDelete";
    let partition = number(&object["spec"]["updateStrategy"]["rollingUpdate"]["partition"]);
    let updated = number(&status["updatedReplicas"]);
    let to_update = desired.saturating_sub(partition);
    if !by_hand && updated < to_update {
        return Health::Coming(format!("{updated} of {to_update} updated"));
    }
    count(ready, desired)
}

fn daemon_set(object: &Value) -> Health {
    if is_behind(object) {
        return not_observed_yet();
    }
    let status = &object["status"];
    let desired = number(&status["desiredNumberScheduled"]);
    let by_hand = object["spec"]["updateStrategy"]["type"] == "OnDelete";
    let updated = number(&status["updatedNumberScheduled"]);
    if !by_hand && updated < desired {
        return Health::Coming(format!("{updated} of {desired} updated"));
    }
    count(number(&status["numberAvailable"]), desired)
}

/// A job is ready when it runs.
fn job(object: &Value) -> Health {
    let status = &object["status"];
    if let Some(("True", condition)) = condition(object, "Failed") {
        let reason = condition["message"].as_str().or(condition["reason"].as_str()).unwrap_or("no reason given");
        return Health::Failed(format!("has failed: {reason}"));
    }
    let done = matches!(condition(object, "Complete"), Some(("True", _)));
    let idle = object["spec"]["suspend"] == true || object["spec"]["completions"] == 0;
    if done || idle || number(&status["active"]) + number(&status["succeeded"]) > 0 {
        Health::Ready
    } else {
        Health::Coming("has not started".to_owned())
    }
}

fn pod(object: &Value) -> Health {
    match object["status"]["phase"].as_str().unwrap_or_default() {
        "Succeeded" => Health::Ready,
        "Failed" => {
            let reason = object["status"]["message"].as_str().or(object["status"]["reason"].as_str());
            Health::Failed(format!("has failed: {}", reason.unwrap_or("a container ended with an error")))
        }
        _ => match condition(object, "Ready") {
            Some(("True", _)) => Health::Ready,
            _ => Health::Coming("is not ready".to_owned()),
        },
    }
}

/// Whether an object may be gone because it has finished.
pub(super) fn is_done(object: &Value) -> bool {
    let goes = object["kind"] == "Job" && !object["spec"]["ttlSecondsAfterFinished"].is_null();
    goes || object["kind"] == "Pod" && object["status"]["phase"] == "Succeeded"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, spec: Value, status: Value) -> Value {
        json!({ "kind": kind, "metadata": { "name": "x", "generation": 2 }, "spec": spec, "status": status })
    }

    fn coming(text: &str) -> Health {
        Health::Coming(text.to_owned())
    }

    #[test]
    fn a_deployment_is_ready_when_only_the_new_revision_runs() {
        let with = |status: Value| health(&object("Deployment", json!({ "replicas": 2 }), status));
        assert_eq!(with(json!({ "observedGeneration": 1 })), not_observed_yet());
        let status = |updated: u64, all: u64, available: u64| json!({ "observedGeneration": 2, "updatedReplicas": updated, "replicas": all, "availableReplicas": available });
        assert_eq!(with(status(1, 2, 2)), coming("1 of 2 updated"));
        assert_eq!(with(status(2, 3, 2)), coming("1 of the old revision still running"));
        assert_eq!(with(status(2, 2, 1)), coming("1 of 2 ready"));
        assert_eq!(with(status(2, 2, 2)), Health::Ready);
        let mut stuck = status(2, 2, 0);
        stuck["conditions"] =
            json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        assert!(matches!(with(stuck), Health::Failed(_)));
        // Scaled to nothing.
        let none = json!({ "observedGeneration": 2 });
        assert_eq!(health(&object("Deployment", json!({ "replicas": 0 }), none)), Health::Ready);
    }

    #[test]
    fn sets_are_ready_when_all_replicas_are_ready() {
        let status = json!({ "observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1 });
        let spec = |strategy: Value| json!({ "replicas": 3, "updateStrategy": strategy });
        assert_eq!(health(&object("StatefulSet", spec(json!({})), status.clone())), coming("1 of 3 updated"));
        let partition = json!({ "rollingUpdate": { "partition": 2 } });
        assert_eq!(health(&object("StatefulSet", spec(partition), status.clone())), Health::Ready);
        assert_eq!(health(&object("StatefulSet", spec(json!({ "type": "OnDelete" })), status)), Health::Ready);
        let status = json!({ "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1 });
        assert_eq!(health(&object("DaemonSet", json!({}), status)), coming("1 of 2 ready"));
    }

    #[test]
    fn jobs_are_ready_when_running_and_fail_when_failed() {
        let with = |status: Value| health(&object("Job", json!({}), status));
        assert_eq!(with(json!({})), coming("has not started"));
        assert_eq!(with(json!({ "active": 1 })), Health::Ready);
        assert_eq!(with(json!({ "conditions": [{ "type": "Complete", "status": "True" }] })), Health::Ready);
        let failed = json!({ "conditions": [{ "type": "Failed", "status": "True", "message": "too often" }] });
        assert_eq!(with(failed), Health::Failed("has failed: too often".to_owned()));
        assert!(is_done(&object("Job", json!({ "ttlSecondsAfterFinished": 5 }), json!({}))));
        assert!(!is_done(&object("Job", json!({}), json!({}))));
    }

    #[test]
    fn objects_without_status_are_ready_when_they_exist() {
        assert_eq!(health(&object("ConfigMap", json!({}), json!({}))), Health::Ready);
        assert_eq!(health(&object("Pod", json!({}), json!({ "phase": "Pending" }))), coming("is not ready"));
        assert!(matches!(health(&object("Pod", json!({}), json!({ "phase": "Failed" }))), Health::Failed(_)));
    }
}
