-- Registries besides the one of this server, and what they are asked with. The password is sealed, bound to its host.
-- A check is what came of asking the registry as it stands here; it is forgotten when something about it changes.
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
