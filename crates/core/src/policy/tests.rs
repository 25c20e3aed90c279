use super::*;
use serde_json::json;

#[test]
fn policies_round_trip() {
    for drift in Drift::ALL {
        for on_failure in OnFailure::ALL {
            for on_removal in OnRemoval::ALL {
                for attempt in [0, 1, u32::MAX] {
                    let policy = Policy { drift: *drift, on_failure: *on_failure, on_removal: *on_removal, attempt };
                    let mut extensions = Extensions::new();
                    policy.write(&mut extensions);
                    assert_eq!(Policy::read(&extensions), policy);
                    assert_eq!(extensions.is_empty(), policy.is_default());
                    let text = PolicyUpdate::from(policy).to_text();
                    assert_eq!(PolicyUpdate::parse(&text).map(|patch| patch.over(Policy::default())), Some(policy));
                }
            }
        }
    }
}

#[test]
fn ignores_unknown_policy_values() {
    // EXT-02
    let extensions = Extensions::from([(
        EXTENSION.to_owned(),
        json!({"policy": {"drift": "dance", "onFailure": "stop", "more": 1}}),
    )]);
    assert_eq!(Policy::read(&extensions), Policy { on_failure: OnFailure::Stop, ..Policy::default() });
    let odd = Extensions::from([(EXTENSION.to_owned(), json!({"policy": [1]}))]);
    assert_eq!(Policy::read(&odd), Policy::default());
}

#[test]
fn keeps_other_members_of_the_extension() {
    let mut extensions = Extensions::from([(EXTENSION.to_owned(), json!({"other": 1, "policy": {"drift": "report"}}))]);
    Policy::default().write(&mut extensions);
    assert_eq!(extensions[EXTENSION], json!({"other": 1}));
}

#[test]
fn rejects_an_unknown_value_with_the_allowed_ones() {
    let error = "fix".parse::<Drift>().unwrap_err();
    assert_eq!(error.to_string(), "`fix` is not one of correct, report, ignore");
}

#[test]
fn a_retry_changes_the_document_and_keeps_the_policy() {
    let present = Policy { on_failure: OnFailure::Stop, attempt: 1, ..Policy::default() };
    let again = PolicyUpdate { attempt: Some(present.attempt + 1), ..PolicyUpdate::default() }.over(present);
    assert_eq!(again, Policy { attempt: 2, ..present });
    let mut extensions = Extensions::new();
    again.write(&mut extensions);
    assert_eq!(extensions[EXTENSION], json!({"policy": {"onFailure": "stop"}, "attempt": 2}));
    present.write(&mut extensions);
    assert_eq!(extensions[EXTENSION]["attempt"], 1);
}
