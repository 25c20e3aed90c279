//! Polling, validating, fetching, accepting.

use super::bench::*;
use crate::Code;
use crate::machine::Settled;
use crate::machine::io::*;
use margo::problem::ProblemType;
use margo::status::State;
use margrave_core::publish;
use std::time::Duration;

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

#[test]
fn the_first_exchange_reports_capabilities_and_then_polls_without_an_etag() {
    // CAP-01, ONB-06
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    assert!(matches!(&server.requests[0], Request::PutCapabilities { device, .. } if device.as_str() == "gw"));
    assert_eq!(server.requests[1], Request::Poll { if_none_match: None, wait: None });
}

#[test]
fn the_first_sync_uses_the_bundle_and_a_small_change_a_single_file() {
    // DS-24 step 4
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!(server.requests.iter().filter(|request| matches!(request, Request::FetchBundle { .. })).count(), 1);
    assert!(!server.requests.iter().any(|request| matches!(request, Request::FetchYaml { .. })));
    server.requests.clear();
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.1"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    let fetched: Vec<_> = server
        .requests
        .iter()
        .filter(|request| matches!(request, Request::FetchYaml { .. } | Request::FetchBundle { .. }))
        .collect();
    assert!(matches!(fetched[..], [Request::FetchYaml { path }] if path.starts_with("/api/v1/deployments/")));
}

#[test]
fn ignores_wrong_sizes() {
    // DS-06
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let lie = |server: &mut Server, size: u64| {
        let mut manifest: serde_json::Value = serde_json::from_slice(&server.publication.body).unwrap();
        manifest["bundle"]["sizeBytes"] = size.into();
        for deployment in manifest["deployments"].as_array_mut().unwrap() {
            deployment["sizeBytes"] = size.into();
        }
        server.publication.body = manifest.to_string().into_bytes();
        server.publication.digest = margo::Digest::of(&server.publication.body);
    };
    // By the bundle at first, then by single files.
    for (size, revision) in [(1, "1.0.0"), (0, "1.0.1"), (1 << 50, "1.0.2")] {
        server.publish(vec![yaml(1, "gw", &["web"], revision), yaml(2, "gw", &["db"], "1.0.0")]);
        lie(&mut server, size);
        bench.converge(&mut server);
        assert_eq!(bench.world.deployments[&id(1)].components["web"].digest, server.deployments[0].digest);
    }
    assert!(bench.codes().is_empty(), "{:?}", bench.codes());
    for fetched in ["/bundles/", "/deployments/"] {
        let used = |request: &Request| match request {
            Request::FetchBundle { path } | Request::FetchYaml { path } => path.contains(fetched),
            _ => false,
        };
        assert!(server.requests.iter().any(used), "{fetched}");
    }
}

#[test]
fn many_changes_use_the_bundle() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    server.publish((1..=5).map(|number| yaml(number, "gw", &["web"], "1.0.0")).collect());
    bench.converge(&mut server);
    assert!(server.requests.iter().any(|request| matches!(request, Request::FetchBundle { .. })));
}

#[test]
fn if_none_match_carries_the_reconciled_etag_only() {
    // DS-13, invariant 4
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.script = toml::from_str("rule = [{fail = \"always\"}]").unwrap();
    bench.run_for(minutes(10), &mut server);
    assert!(server.polls().len() > 3);
    assert!(server.polls().iter().all(Option::is_none), "an incompletely applied manifest is requested without ETag");
    bench.script = toml::from_str("").unwrap();
    bench.converge(&mut server);
    server.requests.clear();
    bench.run_for(minutes(3), &mut server);
    assert!(server.polls().iter().all(|etag| *etag == Some(server.publication.digest.etag())));
}

#[test]
fn the_etag_is_opaque_and_sent_back_byte_for_byte() {
    // W-07
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let body = server.publication.body.clone();
    let odd = "W/\"not a digest\"".to_owned();
    server.twist = Some(Box::new(move |request| match request {
        Request::Poll { if_none_match: None, .. } => Some(Answer::Response(Response {
            status: 200,
            etag: Some(odd.clone()),
            body: body.clone(),
            ..Response::default()
        })),
        Request::Poll { if_none_match: Some(etag), .. } => {
            assert_eq!(*etag, odd);
            Some(response(304, b""))
        }
        _ => None,
    }));
    bench.run_for(minutes(5), &mut server);
    assert_eq!(bench.machine.reconciled_version(), Some(1));
    assert!(server.polls().len() > 2);
}

/// A server that offers `body` once something newer was accepted.
fn offered_after_v3(body: Vec<u8>) -> (Bench, Server) {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![]);
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    assert_eq!(bench.machine.accepted_version(), Some(3));
    server.twist = Some(Box::new(move |request| matches!(request, Request::Poll { .. }).then(|| response(200, &body))));
    bench.run_for(minutes(5), &mut server);
    (bench, server)
}

#[test]
fn rejects_an_older_manifest_as_security_event_and_keeps_workloads() {
    // DS-22, DS-23
    let (bench, _) = offered_after_v3(publish::next(1, &[]).unwrap().body);
    assert_eq!(bench.machine.accepted_version(), Some(3));
    assert_eq!(bench.running(), [id(1)]);
    let event = bench.events.iter().find(|event| event.code == Some(Code::ManifestOlder)).unwrap();
    assert!(event.is_security() && event.level == Level::Error);
}

#[test]
fn rejects_the_same_version_with_other_content_as_security_event() {
    // DS-23
    let (bench, _) = offered_after_v3(publish::next(2, &[]).unwrap().body);
    assert_eq!(bench.running(), [id(1)]);
    assert!(bench.events.iter().any(|event| event.code == Some(Code::ManifestConflict) && event.is_security()));
}

#[test]
fn the_rollback_floor_survives_a_crash_and_the_loss_of_the_accepted_record() {
    // DS-22
    let (mut bench, mut server) = offered_after_v3(publish::next(1, &[]).unwrap().body);
    bench.disk.floor = bench.disk.accepted.take().map(|accepted| accepted.held());
    bench.crash();
    bench.events.clear();
    bench.run_for(minutes(5), &mut server);
    assert!(bench.codes().contains(&"601"));
    assert_eq!(bench.running(), [id(1)], "an unreadable record removes nothing");
}

#[test]
fn an_unknown_digest_algorithm_makes_the_whole_manifest_invalid() {
    // DS-08
    let next = publish::next(3, &[yaml(2, "gw", &["db"], "1.0.0"), yaml(1, "gw", &["web"], "1.0.0")]).unwrap();
    let body = String::from_utf8(next.body).unwrap().replacen("sha256:", "sha512:", 1);
    let (bench, _) = offered_after_v3(body.into_bytes());
    assert_eq!(bench.machine.accepted_version(), Some(3));
    assert_eq!(bench.running(), [id(1)]);
    assert!(bench.codes().contains(&"604"));
}

#[test]
fn rejects_an_unreadable_manifest() {
    for body in [&b"{"[..], b"[]", b"{\"manifestVersion\":\"x\",\"bundle\":null,\"deployments\":[]}"] {
        let (bench, _) = offered_after_v3(body.to_vec());
        assert_eq!(bench.machine.accepted_version(), Some(3));
        assert!(bench.codes().contains(&"603"), "{:?}", bench.codes());
    }
}

#[test]
fn versions_up_to_the_end_of_uint64_are_accepted() {
    // invariant 2
    let body = format!("{{\"manifestVersion\":{},\"bundle\":null,\"deployments\":[]}}", u64::MAX);
    let (bench, server) = offered_after_v3(body.into_bytes());
    assert_eq!(bench.machine.accepted_version(), Some(u64::MAX));
    assert_eq!(server.last_status(1).adopted_manifest_version, u64::MAX);
}

#[test]
fn a_wrong_digest_of_a_single_file_aborts_the_whole_update() {
    // DS-10
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    let held = bench.machine.accepted_version();
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    let evil = yaml(9, "gw", &["evil"], "6.6.6").yaml;
    server.twist = Some(Box::new(move |request| match request {
        Request::FetchYaml { path } if path.contains(&id(2).to_string()) => Some(response(200, &evil)),
        _ => None,
    }));
    bench.run_for(minutes(5), &mut server);
    assert_eq!(bench.machine.accepted_version(), held, "the valid part is not accepted either");
    assert!(bench.events.iter().any(|event| event.code == Some(Code::DigestMismatch) && event.is_security()));
    server.twist = None;
    bench.converge(&mut server);
    assert_eq!(bench.running(), [id(1), id(2)]);
}

#[test]
fn a_missing_artifact_leads_to_another_poll_and_never_to_a_removal() {
    // DS-18
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    server.twist = Some(Box::new(|request| {
        matches!(request, Request::FetchYaml { .. }).then(|| problem(ProblemType::DeploymentNotFound, 404))
    }));
    let before = server.polls().len();
    bench.run_for(minutes(2), &mut server);
    assert!(server.polls().len() > before + 1);
    assert_eq!(bench.running(), [id(1)]);
    assert!(bench.codes().contains(&"609"));
    server.twist = None;
    bench.converge(&mut server);
}

#[test]
fn content_lost_on_disk_is_fetched_again_and_nothing_is_removed_meanwhile() {
    // invariant 6
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.disk.contents.clear();
    bench.crash();
    server.requests.clear();
    bench.converge(&mut server);
    bench.run_for(minutes(3), &mut server);
    assert_eq!(server.polls()[0], None, "a 304 would leave the content missing");
    assert!(bench.disk.contents.contains_key(&server.deployments[0].digest));
    assert_eq!(bench.running(), [id(1)]);
}

#[test]
fn does_not_count_a_part_as_complete_when_the_document_is_lost() {
    // DS-24
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let version = server.publish(vec![yaml(1, "gw", &["db", "web"], "1.0.0")]);
    bench.script = toml::from_str("rule = [{component = \"web\", fail = \"always\"}]").unwrap();
    bench.run_for(minutes(1), &mut server);
    bench.world.deployments[&id(1)].components.shift_remove("web");
    assert_eq!(bench.world.deployments[&id(1)].components.keys().collect::<Vec<_>>(), ["db"]);
    bench.disk.contents.clear();
    bench.crash();
    server.twist = Some(Box::new(|_| Some(response(503, b""))));
    bench.run_for(minutes(1), &mut server);
    assert_ne!(bench.machine.reconciled_version(), Some(version), "its other components are unknown");
    (server.twist, bench.script) = (None, crate::runtimes::simulated::script::Script::default());
    bench.converge(&mut server);
    assert_eq!(bench.world.deployments[&id(1)].components.len(), 2);
}

#[test]
fn nothing_is_applied_before_the_acceptance_is_durable() {
    // invariant 4
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.disk_full = true;
    bench.run_for(minutes(5), &mut server);
    assert!(bench.running().is_empty() && bench.machine.accepted_version().is_none());
    assert!(bench.codes().contains(&"801"));
    bench.disk_full = false;
    bench.converge(&mut server);
    let accepted = bench.trace.iter().rposition(|effect| {
        matches!(effect, Effect::Persist { records, .. } if records.iter().any(|record| matches!(record, Record::Accepted(_))))
    });
    let applied = bench.trace.iter().position(|effect| matches!(effect, Effect::Apply(_)));
    assert!(accepted.unwrap() < applied.unwrap());
}

#[test]
fn an_offered_manifest_that_could_not_be_written_is_not_settled() {
    // invariant 4: what runs is version 1, and reporting "up to date" would be about another manifest.
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    bench.disk_full = true;
    bench.run_for(minutes(5), &mut server);
    assert_ne!(bench.machine.settled(), Settled::UpToDate);
    bench.disk_full = false;
    bench.converge(&mut server);
    assert_eq!(bench.machine.settled(), Settled::UpToDate);
}

#[test]
fn keeps_contents_of_the_previous_revision_and_removes_older_ones() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    let mut digests = vec![];
    for revision in ["1.0.0", "2.0.0", "3.0.0"] {
        server.publish(vec![yaml(1, "gw", &["web"], revision)]);
        digests.push(server.deployments[0].digest.clone());
        bench.converge(&mut server);
    }
    let held = |digest| bench.disk.contents.contains_key(digest);
    assert!(!held(&digests[0]) && held(&digests[1]) && held(&digests[2]));
}

#[test]
fn reports_a_deployment_that_changed_and_changed_back_between_polls() {
    // ST-04, ST-06
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    let version = server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    let status = server.last_status(1);
    assert_eq!((status.state, status.adopted_manifest_version), (State::Installed, version));
}

/// Version 2 runs, 3 names another revision and is accepted but not started; 4 names the running revision.
fn changed_back_before_it_was_begun() -> (Bench, Server, u64) {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.blind = true;
    let other = server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    bench.run_for(minutes(3), &mut server);
    assert_eq!(bench.machine.accepted_version(), Some(other));
    let version = server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    (bench, server, version)
}

#[test]
fn reports_a_deployment_that_changed_back_before_work_started() {
    // ST-04, ST-06: the next version, and no work was done for the previous one.
    let (mut bench, mut server, version) = changed_back_before_it_was_begun();
    bench.run_for(minutes(3), &mut server);
    bench.blind = false;
    bench.converge(&mut server);
    let status = server.last_status(1);
    assert_eq!((status.state, status.adopted_manifest_version), (State::Installed, version));
    assert_eq!(bench.world.deployments[&id(1)].components["web"].starts, 1, "it was never restarted");
}

#[test]
fn repeated_reports_survive_a_crash_after_the_acceptance() {
    // ST-04, ST-06
    let (mut bench, mut server, version) = changed_back_before_it_was_begun();
    let statuses_before = bench.disk.statuses.clone();
    bench.run_for(minutes(3), &mut server);
    assert_eq!(bench.machine.accepted_version(), Some(version));
    bench.disk.statuses = statuses_before;
    server.statuses.clear();
    bench.blind = false;
    bench.crash();
    bench.converge(&mut server);
    let status = server.last_status(1);
    assert_eq!((status.state, status.adopted_manifest_version), (State::Installed, version));
}

#[test]
fn does_not_report_an_unchanged_deployment_again() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.statuses.clear();
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    bench.converge(&mut server);
    assert!(server.statuses.iter().all(|status| status.deployment_id == id(2)), "{:?}", server.statuses);
}

#[test]
fn falls_back_to_single_files_and_keeps_fetched_ones() {
    // DS-24 step 4
    let too_large = || Answer::Failed { code: Code::AnswerTooLarge, message: "beyond the bound".to_owned() };
    let failures: [fn() -> Answer; 3] =
        [|| problem(ProblemType::InvalidBundle, 404), || response(502, b"<html>"), too_large];
    for failure in failures {
        let (mut bench, mut server) = (Bench::new(), Server::new());
        server.publish((1..=5).map(|number| yaml(number, "gw", &["web"], "1.0.0")).collect());
        let mut singles = 0_u32;
        server.twist = Some(Box::new(move |request| match request {
            Request::FetchBundle { .. } => Some(failure()),
            Request::FetchYaml { .. } => {
                singles += 1;
                singles.is_multiple_of(2).then(|| response(500, b""))
            }
            _ => None,
        }));
        bench.converge(&mut server);
        assert_eq!(bench.running().len(), 5);
        let requested = |of: fn(&Request) -> bool| server.requests.iter().filter(|request| of(request)).count();
        assert_eq!(requested(|request| matches!(request, Request::FetchBundle { .. })), 1);
        // Every second one fails, and no fetched one is requested again.
        assert_eq!(requested(|request| matches!(request, Request::FetchYaml { .. })), 9);
    }
}

#[test]
fn fetches_the_next_manifest_by_bundle_again() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish((1..=5).map(|number| yaml(number, "gw", &["web"], "1.0.0")).collect());
    server.twist = Some(Box::new(|request| matches!(request, Request::FetchBundle { .. }).then(|| response(500, b""))));
    bench.converge(&mut server);
    server.twist = None;
    server.requests.clear();
    server.publish((1..=5).map(|number| yaml(number, "gw", &["web"], "2.0.0")).collect());
    bench.converge(&mut server);
    let fetches: Vec<_> = server
        .requests
        .iter()
        .filter(|request| matches!(request, Request::FetchBundle { .. } | Request::FetchYaml { .. }))
        .collect();
    assert!(matches!(fetches[..], [Request::FetchBundle { .. }]), "{fetches:?}");
}

#[test]
fn a_bundle_that_does_not_match_the_manifest_aborts_the_update() {
    // DS-10: no fallback to single files.
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    let held = bench.machine.accepted_version();
    server.publish((1..=5).map(|number| yaml(number, "gw", &["web"], "1.0.0")).collect());
    server.twist =
        Some(Box::new(|request| matches!(request, Request::FetchBundle { .. }).then(|| response(200, b"other"))));
    bench.run_for(minutes(30), &mut server);
    assert_eq!(bench.machine.accepted_version(), held);
    assert!(!server.requests.iter().any(|request| matches!(request, Request::FetchYaml { .. })));
    assert!(bench.events.iter().any(|event| event.code == Some(Code::DigestMismatch) && event.is_security()));
}
