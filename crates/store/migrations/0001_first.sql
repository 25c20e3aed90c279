-- One text for SQLite and PostgreSQL: TEXT, BIGINT (times in microseconds, UTC) and BYTEA only.

CREATE TABLE clients (
    id TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX clients_by_state ON clients (state);

-- Apart from the client row, so that writing it never waits for an operator's change.
CREATE TABLE client_seen (
    client_id TEXT NOT NULL PRIMARY KEY,
    seen_at BIGINT NOT NULL
);

CREATE TABLE manifests (
    client_id TEXT NOT NULL PRIMARY KEY REFERENCES clients (id),
    version BIGINT NOT NULL,
    digest TEXT NOT NULL,
    body BYTEA NOT NULL,
    bundle_digest TEXT,
    published_at BIGINT NOT NULL
);

-- `stored_at` is the last time somebody stored these bytes; garbage collection leaves young ones alone.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    body BYTEA NOT NULL,
    stored_at BIGINT NOT NULL
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
    retired_at BIGINT,
    PRIMARY KEY (client_id, kind, deployment_id, digest)
);
CREATE INDEX artifacts_by_retirement ON artifacts (retired_at);
CREATE INDEX artifacts_by_digest ON artifacts (digest);

CREATE TABLE devices (
    client_id TEXT NOT NULL REFERENCES clients (id),
    device_id TEXT NOT NULL,
    capabilities BYTEA NOT NULL,
    reported_labels TEXT NOT NULL,
    operator_labels TEXT NOT NULL,
    first_reported_at BIGINT NOT NULL,
    reported_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (client_id, device_id)
);

-- The label index; the labels themselves stand in the device row.
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

CREATE TABLE changes (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    answers TEXT NOT NULL,
    target_count BIGINT NOT NULL,
    done BIGINT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT,
    request_id TEXT,
    created_at BIGINT NOT NULL,
    finished_at BIGINT
);
CREATE INDEX changes_by_age ON changes (created_at, id);
CREATE INDEX changes_by_finish ON changes (finished_at, created_at);

-- Apart from the change row: long, never changed, while progress is written with every batch.
CREATE TABLE change_targets (
    change_id TEXT NOT NULL PRIMARY KEY REFERENCES changes (id),
    targets TEXT NOT NULL
);

CREATE TABLE change_skips (
    change_id TEXT NOT NULL REFERENCES changes (id),
    position BIGINT NOT NULL,
    deployment_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (change_id, position)
);

CREATE TABLE deployments (
    id TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES clients (id),
    target TEXT NOT NULL,
    application TEXT NOT NULL,
    version TEXT NOT NULL,
    profile TEXT NOT NULL,
    answers TEXT NOT NULL,
    revision BIGINT NOT NULL,
    desired TEXT NOT NULL,
    yaml_digest TEXT NOT NULL,
    target_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    change_id TEXT NOT NULL
);
CREATE INDEX deployments_by_client ON deployments (client_id, id);
CREATE INDEX deployments_by_application ON deployments (application, id);
CREATE INDEX deployments_by_change ON deployments (change_id, id);
CREATE INDEX deployments_by_desire ON deployments (desired, updated_at);
CREATE INDEX deployments_by_digest ON deployments (yaml_digest);

CREATE TABLE deployment_revisions (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    revision BIGINT NOT NULL,
    action TEXT NOT NULL,
    version TEXT NOT NULL,
    profile TEXT NOT NULL,
    answers TEXT NOT NULL,
    yaml_digest TEXT NOT NULL,
    manifest_version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT,
    change_id TEXT NOT NULL,
    PRIMARY KEY (deployment_id, revision)
);
CREATE INDEX deployment_revisions_by_digest ON deployment_revisions (yaml_digest);

-- One row per deployment from the moment it is assigned; `state` is empty until its client has spoken.
CREATE TABLE statuses (
    deployment_id TEXT NOT NULL PRIMARY KEY REFERENCES deployments (id),
    client_id TEXT NOT NULL,
    reports BIGINT NOT NULL,
    state TEXT,
    adopted_version BIGINT,
    body BYTEA,
    received_at BIGINT
);

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
    reason TEXT,
    request_id TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before_state TEXT,
    after_state TEXT,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX audit_by_subject ON audit (subject, seq);

-- A single row: the end of the chain. Whoever holds it appends.
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

CREATE TABLE enrolments (
    secret_hash TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    key_hash TEXT
);
CREATE INDEX enrolments_by_client ON enrolments (client_id);
CREATE INDEX enrolments_by_expiry ON enrolments (expires_at);
