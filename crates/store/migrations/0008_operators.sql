-- Operators: people who sign in with a name and a password. Of the password only what a memory-hard function makes of it is kept.
CREATE TABLE operators (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    password_at BIGINT NOT NULL
);

-- A session belongs to a token or to an operator, so `token_id` may be empty from now on. SQLite cannot loosen a column; the table
-- is made anew, and whoever is signed in stays so.
CREATE TABLE web_sessions_anew (
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
INSERT INTO web_sessions_anew (id, secret_hash, token_id, address, browser, created_at, seen_at, expires_at, ended_at)
SELECT id, secret_hash, token_id, address, browser, created_at, seen_at, expires_at, ended_at FROM web_sessions;
DROP TABLE web_sessions;
ALTER TABLE web_sessions_anew RENAME TO web_sessions;
CREATE INDEX web_sessions_by_expiry ON web_sessions (expires_at);
