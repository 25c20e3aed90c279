use super::{Action, Observed, Seen, Wanted, plan};
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

fn one(seen: Option<Seen>) -> Option<Action> {
    let wanted = Wanted::from([(id(1), digest("new"))]);
    let observed: Observed = seen.into_iter().map(|seen| (id(1), seen)).collect();
    let steps = plan(&wanted, &observed);
    assert!(steps.iter().all(|step| !step.reason.is_empty() && step.digest == Some(digest("new"))));
    steps.first().map(|step| step.action.clone())
}

// DS-24
#[test]
fn does_what_brings_each_deployment_to_the_wanted_digest() {
    assert_eq!(one(None), Some(Action::Install));
    assert_eq!(one(Some(Seen::Running(digest("new")))), None);
    assert_eq!(one(Some(Seen::Running(digest("old")))), Some(Action::Replace));
    assert_eq!(one(Some(Seen::Partial(digest("new")))), Some(Action::Resume));
    assert_eq!(one(Some(Seen::Partial(digest("old")))), Some(Action::Replace));
    assert_eq!(one(Some(Seen::Drifted(digest("new")))), Some(Action::Repair));
    assert_eq!(one(Some(Seen::Drifted(digest("old")))), Some(Action::Replace));
}

#[test]
fn applies_again_what_it_cannot_tell_and_says_so() {
    let steps = plan(&Wanted::from([(id(1), digest("new"))]), &Observed::from([(id(1), Seen::Unknown)]));
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].action, Action::Repair);
    assert_eq!(steps[0].reason, "what runs cannot be told, so it is applied again");
}

// DS-18, DS-24
#[test]
fn removes_only_what_the_manifest_dropped_and_does_so_first() {
    let wanted = Wanted::from([(id(3), digest("c")), (id(1), digest("a"))]);
    let observed = Observed::from([(id(1), Seen::Running(digest("old"))), (id(2), Seen::Unknown)]);
    let steps: Vec<_> = plan(&wanted, &observed).into_iter().map(|step| (step.deployment, step.action)).collect();
    assert_eq!(steps, [(id(2), Action::Remove), (id(3), Action::Install), (id(1), Action::Replace)]);
}

fn seen() -> impl Strategy<Value = Seen> {
    let digest = || "[ab]".prop_map(|text| digest(&text));
    prop_oneof![
        Just(Seen::Unknown),
        digest().prop_map(Seen::Running),
        digest().prop_map(Seen::Partial),
        digest().prop_map(Seen::Drifted),
    ]
}

proptest! {
    #[test]
    fn leaves_nothing_to_do_once_every_step_was_taken(
        wanted in proptest::collection::btree_map(0u128..6, "[ab]", 0..6),
        observed in proptest::collection::btree_map(0u128..6, seen(), 0..6),
    ) {
        let wanted: Wanted = wanted.into_iter().map(|(number, text)| (id(number), digest(&text))).collect();
        let mut observed: Observed = observed.into_iter().map(|(number, seen)| (id(number), seen)).collect();
        for step in plan(&wanted, &observed) {
            match step.digest {
                Some(digest) => { observed.insert(step.deployment, Seen::Running(digest)); }
                None => { observed.shift_remove(&step.deployment); }
            }
        }
        prop_assert_eq!(plan(&wanted, &observed), vec![]);
        prop_assert_eq!(observed.len(), wanted.len());
    }
}
