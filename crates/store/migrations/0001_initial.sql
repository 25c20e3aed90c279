-- The initial schema: one text for SQLite and PostgreSQL, with TEXT, BIGINT (times in microseconds, UTC) and BYTEA only.
-- Later migrations only add to it.

-- One row: the format of this database. A server refuses a database whose format it does not know.
CREATE TABLE format (
    id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO format (id, version) VALUES (1, 1);

CREATE TABLE clients (
    id TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX clients_by_state ON clients (state);

-- Separate from `clients`, so that a poll never waits for an operator's write.
-- `offline_at` is set when the client was found offline and cleared when it reconnects. `pending_event` is the event that is not
-- written yet: `first` for a new row, `back` for a client that was offline. Few rows have one, so the partial index stays small.
CREATE TABLE client_seen (
    client_id TEXT NOT NULL PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    offline_at BIGINT,
    pending_event TEXT DEFAULT 'first'
);
CREATE INDEX client_seen_by_pending_event ON client_seen (client_id) WHERE pending_event IS NOT NULL;

CREATE TABLE manifests (
    client_id TEXT NOT NULL PRIMARY KEY REFERENCES clients (id),
    version BIGINT NOT NULL,
    digest TEXT NOT NULL,
    body BYTEA NOT NULL,
    bundle_digest TEXT,
    published_at BIGINT NOT NULL
);

-- `stored_at` is the last time these bytes were stored; garbage collection skips recent ones. `sealed_with` is the id of the seal
-- key where the bytes are sealed; digest and size are those of the clear bytes.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    body BYTEA NOT NULL,
    stored_at BIGINT NOT NULL,
    sealed_with TEXT
);

-- Blobs that lost a reference and may have none left.
CREATE TABLE blob_candidates (
    digest TEXT NOT NULL PRIMARY KEY
);

-- Which client may fetch which blob, and as what. `deployment_id` is empty for a bundle.
CREATE TABLE artifacts (
    client_id TEXT NOT NULL REFERENCES clients (id),
    kind TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    replaced_at BIGINT,
    PRIMARY KEY (client_id, kind, deployment_id, digest)
);
CREATE INDEX artifacts_by_replacement ON artifacts (replaced_at);
CREATE INDEX artifacts_by_digest ON artifacts (digest);

-- `simulated`: the agent reports that it only simulates workloads.
CREATE TABLE devices (
    client_id TEXT NOT NULL REFERENCES clients (id),
    device_id TEXT NOT NULL,
    capabilities BYTEA NOT NULL,
    reported_labels TEXT NOT NULL,
    operator_labels TEXT NOT NULL,
    first_reported_at BIGINT NOT NULL,
    reported_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    simulated BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (client_id, device_id)
);
-- A device is found by its id alone, whatever its client.
CREATE INDEX devices_by_name ON devices (device_id, client_id);

-- The label index; the labels themselves are in the device row.
CREATE TABLE device_labels (
    client_id TEXT NOT NULL,
    device_id TEXT NOT NULL,
    source TEXT NOT NULL,
    label_key TEXT NOT NULL,
    label_value TEXT NOT NULL,
    PRIMARY KEY (client_id, device_id, source, label_key, label_value),
    FOREIGN KEY (client_id, device_id) REFERENCES devices (client_id, device_id)
);
CREATE INDEX device_labels_by_value ON device_labels (label_key, label_value, client_id, device_id);

CREATE TABLE device_groups (
    name TEXT NOT NULL PRIMARY KEY,
    selector TEXT NOT NULL,
    description TEXT,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);

CREATE TABLE application_versions (
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    name TEXT NOT NULL,
    tagline TEXT,
    vendor TEXT NOT NULL,
    package_digest TEXT NOT NULL,
    description_digest TEXT NOT NULL,
    source TEXT NOT NULL,
    warnings TEXT NOT NULL,
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (application, version)
);
CREATE INDEX application_versions_by_description ON application_versions (description_digest);

CREATE TABLE application_resources (
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    position BIGINT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    media_type TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (application, version, position),
    FOREIGN KEY (application, version) REFERENCES application_versions (application, version)
);
CREATE INDEX application_resources_by_digest ON application_resources (digest);

-- `policy` holds the policies that the rollout sets; empty keeps those of each deployment. `rollback_to` is the earlier revision of
-- a deployment that a rollback uses again.
CREATE TABLE rollouts (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    parameter_values TEXT NOT NULL,
    policy TEXT NOT NULL DEFAULT '',
    target_count BIGINT NOT NULL,
    done BIGINT NOT NULL,
    actor TEXT NOT NULL,
    comment TEXT,
    request_id TEXT,
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    rollback_to BIGINT
);
CREATE INDEX rollouts_by_age ON rollouts (created_at, id);
CREATE INDEX rollouts_by_finish ON rollouts (finished_at, created_at);

-- Separate from `rollouts`: long and never updated, while progress is written with every batch.
CREATE TABLE rollout_targets (
    rollout_id TEXT NOT NULL PRIMARY KEY REFERENCES rollouts (id),
    targets TEXT NOT NULL
);

-- Targets that could not be published any more. `data` is what the text of the reason is rendered from.
CREATE TABLE rollout_skips (
    rollout_id TEXT NOT NULL REFERENCES rollouts (id),
    position BIGINT NOT NULL,
    deployment_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (rollout_id, position)
);

-- The state of a rollout's targets when a later rollout replaced it or when they were deleted after their removal, counted by
-- state: a deployment itself only knows its newest rollout.
CREATE TABLE rollout_outcomes (
    rollout_id TEXT NOT NULL,
    state TEXT NOT NULL,
    targets BIGINT NOT NULL,
    PRIMARY KEY (rollout_id, state)
);

-- `changed_version` is the manifest version that first had the current content. `target_version` is above it after a retry.
-- No index over `yaml_digest`: the newest revision has the same digest and is never removed before its deployment.
CREATE TABLE deployments (
    id TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES clients (id),
    target TEXT NOT NULL,
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    profile TEXT NOT NULL,
    parameter_values TEXT NOT NULL,
    policy TEXT NOT NULL DEFAULT '',
    revision BIGINT NOT NULL,
    desired TEXT NOT NULL,
    yaml_digest TEXT NOT NULL,
    changed_version BIGINT NOT NULL DEFAULT 0,
    target_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    rollout_id TEXT NOT NULL
);
CREATE INDEX deployments_by_client ON deployments (client_id, id);
CREATE INDEX deployments_by_application ON deployments (application, id);
CREATE INDEX deployments_by_rollout ON deployments (rollout_id, id);
-- Partial: with an index over `desired` alone, SQLite would read all present deployments for every batch.
CREATE INDEX deployments_removed ON deployments (updated_at) WHERE desired = 'absent';

CREATE TABLE deployment_revisions (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    revision BIGINT NOT NULL,
    action TEXT NOT NULL,
    version TEXT NOT NULL,
    profile TEXT NOT NULL,
    parameter_values TEXT NOT NULL,
    yaml_digest TEXT NOT NULL,
    manifest_version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    comment TEXT,
    rollout_id TEXT NOT NULL,
    rollback_to BIGINT,
    PRIMARY KEY (deployment_id, revision)
);
CREATE INDEX deployment_revisions_by_digest ON deployment_revisions (yaml_digest);

-- One row per deployment from its creation; `state` is NULL until its client reports. `previous_*` is what the last report
-- replaced, so that one statement writes a status and returns whether it differs. `failed_*` is the last failure until a success,
-- `failed_since` the first failure after the last success or new revision, and `failures` the number of failed attempts since then.
CREATE TABLE statuses (
    deployment_id TEXT NOT NULL PRIMARY KEY REFERENCES deployments (id),
    client_id TEXT NOT NULL,
    reports BIGINT NOT NULL,
    state TEXT,
    adopted_version BIGINT,
    body BYTEA,
    received_at BIGINT,
    previous_state TEXT,
    previous_version BIGINT,
    previous_failed_version BIGINT,
    failed_version BIGINT,
    failed_body BYTEA,
    failed_at BIGINT,
    failed_since BIGINT,
    failures BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX statuses_unsuccessful ON statuses (client_id) WHERE failed_version IS NOT NULL;
CREATE INDEX statuses_unsuccessful_deployments ON statuses (deployment_id) WHERE failed_version IS NOT NULL;

CREATE TABLE status_history (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    seq BIGINT NOT NULL,
    state TEXT NOT NULL,
    adopted_version BIGINT NOT NULL,
    body BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (deployment_id, seq)
);

CREATE TABLE audit (
    seq BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    comment TEXT,
    request_id TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before_state TEXT,
    after_state TEXT,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX audit_by_subject ON audit (subject, seq);

-- One row: the end of the chain. A transaction that locks it may append.
CREATE TABLE audit_head (
    id BIGINT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_head (id, seq, hash)
VALUES (1, 0, 'sha256:0000000000000000000000000000000000000000000000000000000000000000');

CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);

CREATE TABLE enrollment_tokens (
    secret_hash TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    key_hash TEXT
);
CREATE INDEX enrollment_tokens_by_client ON enrollment_tokens (client_id);
CREATE INDEX enrollment_tokens_by_expiry ON enrollment_tokens (expires_at);

-- Events in the order of commits; the newest are kept. Kind and data only: the text is rendered when an event is read.
-- No index but the key: every writer appends here, and readers scan a bounded table.
CREATE TABLE events (
    id BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    client TEXT,
    device TEXT,
    deployment TEXT,
    application TEXT,
    rollout_id TEXT,
    actor TEXT,
    data TEXT
);

-- One row: the newest id. A transaction that locks it may append, so that ids appear in order.
CREATE TABLE event_head (
    id BIGINT NOT NULL PRIMARY KEY,
    newest BIGINT NOT NULL
);
INSERT INTO event_head (id, newest) VALUES (1, 0);

-- Responses to calls with an idempotency key, written in the transaction of the effect. Only hashes of key and request; the answer
-- is sealed, or empty when it was not kept. `seq` counts per token.
CREATE TABLE idempotency_keys (
    token_id TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    response BYTEA NOT NULL,
    seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (token_id, key_hash)
);
CREATE INDEX idempotency_keys_by_token ON idempotency_keys (token_id, seq);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Operators sign in with a name and a password; only the Argon2id hash is stored.
CREATE TABLE operators (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    password_at BIGINT NOT NULL
);

-- One row per signed-in browser, found by the hash of its cookie. It belongs to a token or to an operator and ends with it.
CREATE TABLE web_sessions (
    id TEXT NOT NULL PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,
    token_id TEXT REFERENCES tokens (id),
    operator_id TEXT REFERENCES operators (id),
    address TEXT NOT NULL,
    browser TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    CHECK ((token_id IS NULL) <> (operator_id IS NULL))
);
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);

-- Drafts of the deployment wizard.
CREATE TABLE drafts (
    id TEXT NOT NULL PRIMARY KEY,
    token_id TEXT NOT NULL,
    body TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX drafts_by_age ON drafts (updated_at);

-- One row: the key that sensitive values are sealed with. The key itself is a file outside the database.
CREATE TABLE seal_key (
    id BIGINT NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL,
    noted_at BIGINT NOT NULL
);

-- External registries with their credentials. The password is sealed and bound to its host. The result of a check is cleared
-- when the entry is updated.
CREATE TABLE registries (
    host TEXT NOT NULL PRIMARY KEY,
    username TEXT,
    password TEXT,
    ca TEXT,
    plain_http BIGINT NOT NULL,
    added_by TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    checked_at BIGINT,
    outcome TEXT,
    message TEXT,
    CHECK ((username IS NULL) = (password IS NULL)),
    CHECK ((checked_at IS NULL) = (outcome IS NULL))
);
