use super::*;
use margrave_api::rollouts::CreateRollout;

fn refusal(body: &str) -> (Code, String, Vec<String>) {
    match read_json::<CreateRollout>(body.as_bytes()) {
        Err(ApiError(AppError::Refused { code, detail, errors })) => {
            (code, detail, errors.into_iter().map(|error| error.field).collect())
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn a_body_that_is_not_json_is_malformed() {
    assert_eq!(refusal("{").0, Code::Malformed);
    assert_eq!(refusal(r#"{"kind":"create","application":"a","scope":{}} x"#).0, Code::Malformed);
}

#[test]
fn a_field_of_the_wrong_type_is_named_by_its_path() {
    let (code, _, fields) = refusal(r#"{"kind":"create","application":"a","scope":{"devices":[{"client":1}]}}"#);
    assert_eq!((code, fields), (Code::Invalid, vec!["scope.devices[0].client".to_owned()]));
}

#[test]
fn rejects_an_unknown_field() {
    let (code, detail, _) = refusal(r#"{"kind":"create","application":"a","scope":{},"scop":1}"#);
    assert_eq!(code, Code::Invalid);
    assert!(detail.contains("scop"), "{detail}");
}
