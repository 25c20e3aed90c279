//! Every call of the store, on both real engines.
//!
//! A case is an `async fn` over a [`harness::Database`]; the list below makes two tests of each. PostgreSQL comes from
//! `MARGRAVE_TEST_POSTGRES`; without it those tests fail and say how to get one.

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod harness;

macro_rules! conformance {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        $(#[cfg(test)] mod $module;)+

        #[cfg(test)]
        mod sqlite {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::harness::on_sqlite(crate::$module::$case).await;
                })+
            })+
        }

        #[cfg(test)]
        mod postgres {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::harness::on_postgres(crate::$module::$case).await;
                })+
            })+
        }
    };
}

conformance! {
    opening: finds_everything_again_after_reopening, answers_a_ping, refuses_what_it_cannot_open,
        moves_the_log_into_the_database_beside_others;
    clients: gives_a_new_client_its_first_manifest, refuses_a_client_twice, records_who_asks_once_and_not_without_end,
        finds_clients_by_state_and_part_of_their_id, moves_a_client_between_states,
        refuses_a_state_for_an_older_revision, pages_clients_and_heads, reads_the_heads_of_some_clients, tells_whose_heads_have_changed_since, remembers_the_latest_time_a_client_was_seen;
    devices: creates_then_updates_a_device, knows_simulated_devices, writes_many_reports_in_one_transaction, keeps_devices_of_two_clients_apart, wants_the_gateway_before_its_children,
        removes_a_gateway_with_its_children_only, labels_a_device, indexes_many_labels, refuses_labels_for_an_older_revision,
        finds_devices_by_labels_of_both_sides, pages_devices_of_one_client, pages_ten_thousand_devices_by_label;
    groups: creates_changes_and_deletes_a_group, refuses_a_group_twice_or_out_of_turn, pages_groups;
    applications: adds_a_version_with_its_blobs, takes_the_same_package_twice_and_another_never,
        lists_applications_by_their_newest_version, names_applications, deletes_only_versions_nobody_uses;
    changes: records_an_intent, pages_changes, cancels_what_is_left, tells_a_client_again, finds_changes_under_way_by_what_they_touch, tells_where_an_application_is,
        publishes_a_deployment, makes_one_version_of_many_targets,
        keeps_the_version_when_nothing_changes, upgrades_and_removes, skips_what_moved_on, does_nothing_out_of_turn,
        refuses_batches_that_are_too_large, finishes_a_change_without_targets, goes_on_after_a_stop_between_batches, settles_what_is_told,
        leaves_nothing_of_a_batch_that_fails, publishes_nothing_when_a_document_is_lost, publishes_for_one_client_from_many_sides, carries_out_five_hundred_at_once,
        never_uses_an_id_again, keeps_what_became_of_a_change, shows_nothing_of_one_client_to_another, serves_replaced_documents_for_a_while;
    statuses: keeps_the_last_word, keeps_a_failure_until_something_succeeds, lets_the_newer_version_win, takes_version_zero_always, refuses_versions_beyond_the_database,
        tells_unknown_from_removed, bounds_the_history, keeps_many_reports_in_order, publishes_above_a_client_that_is_ahead;
    summaries: counts_as_the_core_judges, filters_as_the_core_judges, summarises_the_fleet, filters_deployments,
        lists_removals, finds_changes_under_way;
    audits: chains_every_record, finds_a_record_that_was_changed, finds_a_record_that_is_gone, finds_a_chain_cut_short,
        keeps_one_chain_with_many_writers, pages_newest_first;
    events: tells_of_everything_in_the_audit, tells_nothing_of_what_was_refused, tells_of_reports_only_when_they_are_news,
        tells_of_clients_that_come_fall_silent_and_return, finds_events_by_what_they_are_about,
        shows_every_event_to_a_reader_that_goes_by_id, keeps_the_newest_events, hears_of_events_written_by_others,
        keeps_events_within_their_bounds;
    tokens: finds_valid_tokens_only, revokes_a_token_once;
    operators: finds_operators_by_name, sets_a_password_and_ends_the_other_sessions, tells_of_passwords_without_them;
    registries: keeps_a_registry_with_its_password_sealed, changes_a_registry_and_keeps_its_password, refuses_a_registry_twice_or_out_of_turn,
        notes_what_came_of_a_check, tells_of_registries_without_passwords, opens_a_password_only_where_it_stands, bounds_the_registries,
        counts_what_came_from_a_registry;
    sessions: finds_good_sessions_only, lists_and_ends_sessions, forgets_old_sessions_and_drafts, keeps_drafts_apart;
    searches: tells_devices_by_state, finds_devices_by_name_and_labels, tells_which_sites_are_silent, lists_what_clients_have,
        counts_the_past_in_slots, searches_the_audit, looks_at_so_many_deployments_at_a_time;
    enrolments: grants_a_token_to_one_key, refuses_unknown_and_expired_tokens, forgets_tokens_of_a_retired_client,
        grants_one_of_two_keys_that_come_at_once, lists_and_withdraws_tokens;
    idempotency: remembers_a_key_with_the_effect, writes_nothing_under_a_key_that_is_taken, gives_one_of_two_equal_calls_the_key,
        keeps_keys_of_two_tokens_apart, forgets_what_has_expired, bounds_the_keys_of_a_token;
    seals: seals_what_is_sensitive_and_nothing_else, opens_with_the_same_key_after_a_restart, refuses_a_second_key,
        opens_nothing_without_the_key, keeps_a_value_sealed_whatever_comes_later, seals_bytes_that_were_in_the_clear,
        does_not_open_what_was_moved, publishes_nothing_when_a_document_cannot_be_opened, seals_older_values,
        seals_only_older_values_of_these_applications, forgets_a_key_only_when_nothing_is_sealed_with_it;
    pruning: a_removal_stays_done_when_what_it_removed_is_forgotten, bounds_every_history, never_collects_what_is_referred_to, keeps_the_audit;
}

#[cfg(test)]
mod memory {
    //! The embedded database without a file, for trying things out.

    use crate::{fixtures, harness};
    use margrave_core::model::ClientState;
    use margrave_store::{Store, StoreOptions};

    #[tokio::test]
    async fn works_without_a_file() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 4 };
        let store = Store::open(&options).await.unwrap();
        let other = Store::open(&options).await.unwrap();
        let client = fixtures::client(1);
        store.client_create(&fixtures::actor(), &client, ClientState::Accepted, None, fixtures::T0).await.unwrap();
        assert!(store.client_get(&client).await.unwrap().is_some());
        assert!(other.client_get(&client).await.unwrap().is_none(), "each has a database of its own");
        store.close().await;
    }

    #[test]
    fn names_the_way_to_a_postgresql() {
        assert!(harness::NO_POSTGRES.contains("scripts/with-postgres.sh"));
    }
}
