use super::{ProfileFit, decide};
use margo::constraints::{Fit, Outcome};
use margo::description::ProfileType;

fn fit(profile: &str, outcome: Outcome) -> ProfileFit {
    ProfileFit { profile: profile.into(), profile_type: ProfileType::Helm, fit: Fit { outcome, reasons: vec![] } }
}

fn check(outcomes: &[Outcome], expected: Outcome, chosen: Option<&str>) {
    let profiles = outcomes.iter().enumerate().map(|(index, outcome)| fit(&format!("p{index}"), *outcome)).collect();
    let placement = decide(profiles);
    assert_eq!(placement.outcome, expected, "{outcomes:?}");
    assert_eq!(placement.profile.as_deref(), chosen, "{outcomes:?}");
    assert_eq!(placement.profiles.len(), outcomes.len(), "every profile is explained");
}

// CON-02
#[test]
fn chooses_the_first_profile_that_fits() {
    check(&[Outcome::No, Outcome::Yes, Outcome::Yes], Outcome::Yes, Some("p1"));
    check(&[Outcome::Unknown, Outcome::Yes], Outcome::Yes, Some("p1"));
}

// CON-02
#[test]
fn never_chooses_a_profile_that_only_might_fit() {
    check(&[Outcome::No, Outcome::Unknown], Outcome::Unknown, None);
    check(&[Outcome::No, Outcome::No], Outcome::No, None);
    check(&[], Outcome::No, None);
}
