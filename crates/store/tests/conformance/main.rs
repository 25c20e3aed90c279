//! Every call of the store, on both real engines.
//!
//! A case is an `async fn` over a [`harness::Database`]; the list below makes two tests of each. PostgreSQL comes from
//! `MARGRAVE_TEST_POSTGRES`; without it those tests fail and say how to get one.

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod upgrades;

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
    opening: keeps_everything_after_reopening, responds_to_a_ping, rejects_a_database_it_cannot_open,
        checkpoints_the_log_while_others_use_the_database, opens_twice_with_the_same_format,
        refuses_a_database_without_a_format, refuses_a_database_with_another_format, completes_an_interrupted_first_start;
    clients: creates_the_first_manifest_of_a_new_client, rejects_a_duplicate_client, records_pending_clients_once_and_up_to_a_limit,
        finds_clients_by_state_and_part_of_their_id, moves_a_client_between_states,
        rejects_a_state_for_an_older_revision, pages_clients_and_heads, reads_the_heads_of_some_clients, lists_heads_changed_since, keeps_the_latest_last_seen_time;
    devices: creates_then_updates_a_device, detects_simulated_devices, writes_many_reports_in_one_transaction, separates_devices_of_two_clients, requires_the_gateway_before_its_children,
        removes_a_gateway_with_its_children_only, labels_a_device, indexes_many_labels, rejects_labels_for_an_older_revision,
        finds_devices_by_reported_and_operator_labels, pages_devices_of_one_client, pages_ten_thousand_devices_by_label;
    groups: creates_changes_and_deletes_a_group, rejects_a_duplicate_group_and_an_older_revision, pages_groups;
    applications: adds_a_version_with_its_blobs, accepts_the_same_package_twice_but_no_other,
        lists_applications_by_their_newest_version, lists_names_of_applications, deletes_only_unused_versions;
    rollouts: records_an_intent, pages_rollouts, cancels_the_remaining_targets, republishes_for_a_client, finds_unfinished_rollouts_by_target, lists_the_deployments_of_an_application,
        publishes_a_deployment, publishes_one_version_for_many_targets,
        keeps_the_version_when_nothing_changes, upgrades_and_removes, skips_targets_that_changed, ignores_a_batch_out_of_order,
        rejects_batches_that_are_too_large, finishes_a_change_without_targets, continues_after_a_stop_between_batches, settles_what_is_served,
        rolls_back_a_failed_batch, skips_a_client_that_cannot_be_published, publishes_for_one_client_from_many_writers, carries_out_five_hundred_at_once,
        never_reuses_an_id, keeps_the_outcomes_of_a_rollout, hides_content_of_other_clients, serves_replaced_documents_for_a_while;
    statuses: keeps_the_last_report, keeps_a_failure_until_a_success, counts_failed_attempts_since_the_last_success, counts_the_failures_of_each_revision_separately, lets_the_newer_version_win, always_accepts_version_zero, rejects_versions_beyond_the_database,
        distinguishes_unknown_from_removed_deployments, bounds_the_history, keeps_many_reports_in_order, publishes_above_a_client_that_is_ahead;
    summaries: counts_match_the_rules_in_core, device_states_match_the_rules_in_core, filters_match_the_rules_in_core, summarizes_the_fleet, filters_deployments,
        lists_removals, finds_rollouts_in_progress;
    audits: chains_every_record, detects_a_changed_record, detects_a_deleted_record, detects_a_truncated_chain,
        keeps_one_chain_with_many_writers, pages_newest_first;
    events: writes_an_event_for_every_audit_record, writes_no_event_for_a_rejected_call, writes_events_only_for_reports_with_news, writes_one_event_for_a_deployment_that_fails_repeatedly,
        writes_events_for_clients_that_connect_go_offline_and_return, finds_events_by_subject,
        a_reader_by_id_sees_every_event, keeps_the_newest_events, notices_events_of_other_servers,
        truncates_events_to_their_limits;
    tokens: finds_valid_tokens_only, revokes_a_token_once;
    operators: finds_operators_by_name, sets_a_password_and_ends_the_other_sessions, records_password_changes_without_passwords;
    registries: keeps_a_registry_with_its_password_sealed, changes_a_registry_and_keeps_its_password, rejects_a_duplicate_registry_and_an_older_revision,
        stores_the_result_of_a_check, records_registries_without_passwords, opens_a_password_only_in_its_cell, bounds_the_registries,
        counts_versions_from_a_registry;
    sessions: finds_only_active_sessions, lists_and_ends_sessions, deletes_old_sessions_and_drafts, separates_drafts_of_two_tokens;
    sorts: sorts_devices_by_every_column, sorts_deployments_by_every_column, sorts_clients_rollouts_and_audit_records;
    searches: filters_and_counts_devices_by_state, finds_devices_by_name_and_labels, lists_sites_with_offline_devices, lists_devices_and_deployments_of_clients,
        counts_events_in_time_slots, searches_the_audit, reads_a_bounded_number_of_deployments;
    lookups: finds_objects_by_the_beginning_of_their_id, finds_tokens_and_active_sessions_by_the_beginning_of_their_id,
        finds_devices_and_names_beside_a_name, finds_names_through_an_index;
    enrollments: a_token_enrolls_one_key, rejects_unknown_and_expired_tokens, revokes_tokens_of_a_decommissioned_client,
        a_token_enrolls_one_of_two_concurrent_keys, lists_and_revokes_tokens;
    idempotency: stores_a_key_with_its_effect, writes_nothing_for_a_used_key, only_one_of_two_equal_calls_gets_the_key,
        separates_keys_of_two_tokens, deletes_expired_keys, bounds_the_keys_of_a_token;
    seals: seals_only_sensitive_values, opens_with_the_same_key_after_a_restart, rejects_a_second_key,
        opens_nothing_without_the_key, keeps_a_value_sealed_after_later_updates, seals_bytes_that_were_in_the_clear,
        rejects_a_moved_sealed_value, publishes_nothing_when_a_document_cannot_be_opened,  deletes_a_key_id_only_if_nothing_is_sealed;
    pruning: a_removal_stays_completed_after_pruning, bounds_every_history, never_deletes_referenced_blobs, keeps_the_audit;
}

#[cfg(test)]
mod memory {
    //! The embedded database without a file.

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
        assert!(other.client_get(&client).await.unwrap().is_none(), "each has its own database");
        store.close().await;
    }

    #[test]
    fn the_message_names_the_postgresql_script() {
        assert!(harness::NO_POSTGRES.contains("scripts/with-postgres.sh"));
    }
}
