-- Who is signed in to the web front end: a row per browser, known by the hash of what its cookie holds. `token_id` is what it was
-- signed in with; a session ends with it.
CREATE TABLE web_sessions (
    id TEXT NOT NULL PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,
    token_id TEXT NOT NULL REFERENCES tokens (id),
    address TEXT NOT NULL,
    browser TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);

-- Deployments somebody is about to make, step by step.
CREATE TABLE drafts (
    id TEXT NOT NULL PRIMARY KEY,
    token_id TEXT NOT NULL,
    body TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX drafts_by_age ON drafts (updated_at);

-- What failed is looked for all the time and is hardly ever much, so the index stays tiny.
CREATE INDEX statuses_failed ON statuses (client_id) WHERE state = 'failed';
