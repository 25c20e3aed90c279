use super::*;

#[test]
fn identifies_registered_types_by_their_uri() {
    // PRB-02, PRB-04
    for registered in ProblemType::REGISTERED {
        let problem = Problem::new(registered, 400, "x");
        assert!(problem.problem_type.starts_with("https://docs.margo.org/specification/problem-types#"));
        assert_eq!(Problem::read(&problem.to_json()).unwrap().document.registered(), Some(registered));
    }
    let mut foreign = Problem::new(ProblemType::InvalidRequest, 400, "x");
    foreign.problem_type = "https://docs.margo.org/specification/problem-types/#invalid-request".to_owned();
    assert_eq!(foreign.registered(), None, "PRB-06: the string decides, not what it looks like");
}

#[test]
fn an_unregistered_case_is_about_blank_with_the_phrase_of_its_status() {
    // PRB-01
    for (status, title) in [(404, "Not Found"), (409, "Conflict"), (429, "Too Many Requests"), (501, "Not Implemented")]
    {
        let problem = Problem::new(ProblemType::Blank, status, "x");
        assert_eq!((problem.problem_type.as_str(), problem.title.as_str()), ("about:blank", title));
    }
}

#[test]
fn retry_members_follow_the_status() {
    // RTY-01
    for (status, retryable, strategy) in [
        (400, false, BackoffStrategy::None),
        (422, false, BackoffStrategy::None),
        (429, true, BackoffStrategy::Exponential),
        (500, true, BackoffStrategy::Exponential),
        (503, true, BackoffStrategy::Exponential),
        (501, false, BackoffStrategy::None),
    ] {
        let problem = Problem::new(ProblemType::Blank, status, "x");
        assert_eq!((problem.retryable, problem.backoff_strategy), (Some(retryable), Some(strategy)), "{status}");
        assert_eq!(problem.retry_after_seconds.is_some(), retryable);
    }
}

#[test]
fn type_title_and_status_are_always_written() {
    // §18 no. 5
    let errors = vec![FieldError { field: "properties.id".to_owned(), message: "differs from the path".to_owned() }];
    let problem = Problem::new(ProblemType::SemanticError, 422, "the body is wrong").with_errors(errors);
    let value: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
    assert_eq!(value["title"], "Semantic error");
    assert_eq!(value["status"], 422);
    assert_eq!(value["errors"][0]["field"], "properties.id");
    assert_eq!(Problem::read(&problem.to_json()).unwrap().document, problem);
}

#[test]
fn reads_problems_without_required_members() {
    // §18 no. 5, PRB-03
    let empty = Problem::read(b"{}").unwrap().document;
    assert_eq!((empty.problem_type.as_str(), empty.status), ("about:blank", None));
    let odd = br#"{"type": 7, "status": "x", "retryable": "yes", "errors": [1, {"field": 2}], "vendor_code": "E1"}"#;
    let read = Problem::read(odd).unwrap();
    assert_eq!(read.document.errors.len(), 1);
    assert!(read.warnings.len() >= 4);
    assert!(Problem::read(b"<html>").is_err());
}

#[test]
fn reads_errors_of_generation_a_as_problems() {
    // PRB-05, W-35
    let text = Problem::read(br#"{"error": "bad", "message": "signature"}"#).unwrap().document;
    assert_eq!((text.title.as_str(), text.detail.as_deref()), ("bad", Some("signature")));
    assert_eq!(Problem::read(br#"{"Error": "bad"}"#).unwrap().document.title, "bad");
}
