use super::{Action, DesiredDigests, Observed, ObservedState, plan};
use margo::digest::Digest;
use margo::ids::DeploymentId;
use proptest::prelude::*;
use uuid::Uuid;

fn id(number: u128) -> DeploymentId {
    DeploymentId(Uuid::from_u128(number))
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn one(seen: Option<ObservedState>) -> Option<Action> {
    let wanted = DesiredDigests::from([(id(1), digest("new"))]);
    let observed: Observed = seen.into_iter().map(|seen| (id(1), seen)).collect();
    let steps = plan(&wanted, &observed);
    assert!(steps.iter().all(|step| !step.reason.is_empty() && step.digest == Some(digest("new"))));
    steps.first().map(|step| step.action.clone())
}

// DS-24
#[test]
fn plans_the_step_to_the_desired_digest() {
    assert_eq!(one(None), Some(Action::Install));
    assert_eq!(one(Some(ObservedState::Running(digest("new")))), None);
    assert_eq!(one(Some(ObservedState::Running(digest("old")))), Some(Action::Replace));
    assert_eq!(one(Some(ObservedState::Partial(digest("new")))), Some(Action::Resume));
    assert_eq!(one(Some(ObservedState::Partial(digest("old")))), Some(Action::Replace));
    assert_eq!(one(Some(ObservedState::Drifted(digest("new")))), Some(Action::Repair));
    assert_eq!(one(Some(ObservedState::Drifted(digest("old")))), Some(Action::Replace));
}

#[test]
fn reapplies_an_unknown_state_with_a_reason() {
    let steps =
        plan(&DesiredDigests::from([(id(1), digest("new"))]), &Observed::from([(id(1), ObservedState::Unknown)]));
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].action, Action::Repair);
    assert_eq!(steps[0].reason, "the running state is unknown, so it is applied again");
}

// DS-18, DS-24
#[test]
fn removes_only_what_left_the_manifest_and_removes_first() {
    let wanted = DesiredDigests::from([(id(3), digest("c")), (id(1), digest("a"))]);
    let observed = Observed::from([(id(1), ObservedState::Running(digest("old"))), (id(2), ObservedState::Unknown)]);
    let steps: Vec<_> = plan(&wanted, &observed).into_iter().map(|step| (step.deployment, step.action)).collect();
    assert_eq!(steps, [(id(2), Action::Remove), (id(3), Action::Install), (id(1), Action::Replace)]);
}

fn seen() -> impl Strategy<Value = ObservedState> {
    let digest = || "[ab]".prop_map(|text| digest(&text));
    prop_oneof![
        Just(ObservedState::Unknown),
        digest().prop_map(ObservedState::Running),
        digest().prop_map(ObservedState::Partial),
        digest().prop_map(ObservedState::Drifted),
    ]
}

proptest! {
    #[test]
    fn plans_nothing_after_every_step_was_applied(
        wanted in proptest::collection::btree_map(0u128..6, "[ab]", 0..6),
        observed in proptest::collection::btree_map(0u128..6, seen(), 0..6),
    ) {
        let wanted: DesiredDigests = wanted.into_iter().map(|(number, text)| (id(number), digest(&text))).collect();
        let mut observed: Observed = observed.into_iter().map(|(number, seen)| (id(number), seen)).collect();
        for step in plan(&wanted, &observed) {
            match step.digest {
                Some(digest) => { observed.insert(step.deployment, ObservedState::Running(digest)); }
                None => { observed.shift_remove(&step.deployment); }
            }
        }
        prop_assert_eq!(plan(&wanted, &observed), vec![]);
        prop_assert_eq!(observed.len(), wanted.len());
    }
}
