use super::{BUILT_IN, OfflinePeriods, Profile};
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use std::time::Duration;

fn profile(name: &str) -> Profile {
    Profile::parse(Profile::built_in(name).unwrap()).unwrap_or_else(|problems| panic!("{name}: {problems:?}"))
}

#[test]
fn every_built_in_profile_creates_valid_devices() {
    for (name, _) in BUILT_IN {
        let profile = profile(name);
        for index in 0..50 {
            let character = profile.draw(7, index);
            let report = profile.report(&character, &format!("sim-{index:05}"), "sim").to_string();
            let read = DeviceCapabilities::read(report.as_bytes(), UnknownTypes::Refuse);
            assert!(read.is_ok(), "{name}: {report}: {read:?}");
        }
    }
}

#[test]
fn the_same_seed_creates_the_same_fleet_and_another_seed_a_different_one() {
    let profile = profile("plant");
    let fleet = |seed| -> Vec<String> {
        let shown = |index| {
            let character = profile.draw(seed, index);
            let report = profile.report(&character, "x", "sim");
            format!("{report} {:?} {:?} {}", character.script, character.spells, character.fails_always)
        };
        (0..200).map(shown).collect()
    };
    assert_eq!(fleet(1), fleet(1));
    assert_ne!(fleet(1), fleet(2));
}

#[test]
fn shares_and_weights_hold_in_a_large_fleet() {
    let profile = profile("plant");
    let count = |test: &dyn Fn(&super::DeviceTraits) -> bool| {
        (0..10_000).filter(|index| test(&profile.draw(3, *index))).count()
    };
    let presses = count(&|character| profile.kinds[character.kind].name == "press");
    assert!((3_700..4_300).contains(&presses), "{presses} of 10000 are presses, expected 40 %");
    let offline = count(&|character| character.spells.is_some());
    assert!((380..620).contains(&offline), "{offline} of 10000 have spells, expected 5 %");
}

#[test]
fn reports_all_profile_problems_with_their_position() {
    let text = "[work]\ndelay = \"soon\"\ndelai_max = \"1s\"\n[offline]\nshare = 2.0\n";
    let problems = Profile::parse(text).unwrap_err();
    let shown: Vec<_> =
        problems.iter().map(|problem| (problem.place.map(|place| place.line), problem.key.as_str())).collect();
    assert_eq!(
        shown,
        [
            (Some(2), "work.delay"),
            (Some(3), "work.delai_max"),
            (Some(5), "offline.share"),
            (None, "offline.length"),
            (None, "kinds")
        ],
        "{problems:?}"
    );
    let odd = super::STEADY.replace("\"compose\", \"helm\"", "\"punch cards\"");
    let problems = Profile::parse(&odd).unwrap_err();
    assert!(problems[0].text.contains("invalid device capabilities"), "{problems:?}");
}

#[test]
fn offline_periods_start_end_and_repeat() {
    let seconds = Duration::from_secs;
    let spells = OfflinePeriods { first: seconds(10), length: seconds(5), every: seconds(20), restart: false };
    for (at, offline, next) in
        [(0, false, Some(10)), (10, true, Some(15)), (14, true, Some(15)), (15, false, Some(35)), (36, true, Some(40))]
    {
        assert_eq!(spells.at(seconds(at)), (offline, next.map(seconds)), "at {at} s");
    }
    let once = OfflinePeriods { every: Duration::ZERO, ..spells };
    assert_eq!(once.at(seconds(12)), (true, Some(seconds(15))));
    assert_eq!(once.at(seconds(16)), (false, None));
}
