use super::{ProfileCompatibility, decide};
use margo::constraints::{CompatibilityCheck, Outcome};
use margo::description::ProfileType;

fn compatibility(profile: &str, outcome: Outcome) -> ProfileCompatibility {
    ProfileCompatibility {
        profile: profile.into(),
        profile_type: ProfileType::Helm,
        compatibility: CompatibilityCheck { outcome, reasons: vec![] },
    }
}

fn check(outcomes: &[Outcome], expected: Outcome, chosen: Option<&str>) {
    let profiles =
        outcomes.iter().enumerate().map(|(index, outcome)| compatibility(&format!("p{index}"), *outcome)).collect();
    let placement = decide(profiles);
    assert_eq!(placement.outcome, expected, "{outcomes:?}");
    assert_eq!(placement.profile.as_deref(), chosen, "{outcomes:?}");
    assert_eq!(placement.profiles.len(), outcomes.len(), "every profile is explained");
}

// CON-02
#[test]
fn selects_the_first_compatible_profile() {
    check(&[Outcome::No, Outcome::Yes, Outcome::Yes], Outcome::Yes, Some("p1"));
    check(&[Outcome::Unknown, Outcome::Yes], Outcome::Yes, Some("p1"));
}

// CON-02
#[test]
fn never_selects_a_profile_of_unknown_compatibility() {
    check(&[Outcome::No, Outcome::Unknown], Outcome::Unknown, None);
    check(&[Outcome::No, Outcome::No], Outcome::No, None);
    check(&[], Outcome::No, None);
}
