use super::*;
use serde_json::json;

#[test]
fn every_policy_is_read_as_it_was_written() {
    for drift in Drift::ALL {
        for on_failure in OnFailure::ALL {
            for on_removal in OnRemoval::ALL {
                for attempt in [0, 1, u32::MAX] {
                    let policy = Policy { drift: *drift, on_failure: *on_failure, on_removal: *on_removal, attempt };
                    let mut extensions = Extensions::new();
                    policy.write(&mut extensions);
                    assert_eq!(Policy::read(&extensions), policy);
                    assert_eq!(extensions.is_empty(), policy.is_default());
                    let text = Wish::from(policy).to_text();
                    assert_eq!(Wish::parse(&text).map(|wish| wish.over(Policy::default())), Some(policy));
                }
            }
        }
    }
}

#[test]
fn words_nobody_knows_are_taken_as_not_said() {
    // EXT-02
    let extensions = Extensions::from([(
        EXTENSION.to_owned(),
        json!({"policy": {"drift": "dance", "onFailure": "hold", "more": 1}}),
    )]);
    assert_eq!(Policy::read(&extensions), Policy { on_failure: OnFailure::Hold, ..Policy::default() });
    let odd = Extensions::from([(EXTENSION.to_owned(), json!({"policy": [1]}))]);
    assert_eq!(Policy::read(&odd), Policy::default());
}

#[test]
fn other_members_of_the_extension_stay() {
    let mut extensions = Extensions::from([(EXTENSION.to_owned(), json!({"other": 1, "policy": {"drift": "report"}}))]);
    Policy::default().write(&mut extensions);
    assert_eq!(extensions[EXTENSION], json!({"other": 1}));
}

#[test]
fn a_wrong_word_is_refused_with_the_right_ones() {
    let error = "fix".parse::<Drift>().unwrap_err();
    assert_eq!(error.to_string(), "`fix` is not one of correct, report, ignore");
}

#[test]
fn trying_again_is_another_document_and_the_policy_stays() {
    let present = Policy { on_failure: OnFailure::Hold, attempt: 1, ..Policy::default() };
    let again = Wish { attempt: Some(present.attempt + 1), ..Wish::default() }.over(present);
    assert_eq!(again, Policy { attempt: 2, ..present });
    let mut extensions = Extensions::new();
    again.write(&mut extensions);
    assert_eq!(extensions[EXTENSION], json!({"policy": {"onFailure": "hold"}, "attempt": 2}));
    present.write(&mut extensions);
    assert_eq!(extensions[EXTENSION]["attempt"], 1);
}
