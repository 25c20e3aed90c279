-- What happened, in the order of commits; the newest are kept. No index but the key: reading looks at a bounded table, and
-- everything else writes here.
CREATE TABLE events (
    id BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    client TEXT,
    device TEXT,
    deployment TEXT,
    application TEXT,
    change_id TEXT,
    actor TEXT,
    message TEXT NOT NULL,
    detail TEXT
);

-- A single row: the newest id. Whoever holds it appends, so that nobody sees a number before the one below it.
CREATE TABLE event_head (
    id BIGINT NOT NULL PRIMARY KEY,
    newest BIGINT NOT NULL
);
INSERT INTO event_head (id, newest) VALUES (1, 0);

-- What a report replaced, so that one statement both writes a status and tells whether it is news.
ALTER TABLE statuses ADD COLUMN previous_state TEXT;
ALTER TABLE statuses ADD COLUMN previous_version BIGINT;

-- `silent_at` is set when a client was found silent and emptied when it is heard of again. `news` is what has not been told
-- yet: `first` for a row that is new, `back` for one that was silent. Hardly any row has it, so the index stays tiny.
ALTER TABLE client_seen ADD COLUMN silent_at BIGINT;
ALTER TABLE client_seen ADD COLUMN news TEXT DEFAULT 'first';
UPDATE client_seen SET news = NULL;
CREATE INDEX client_seen_by_news ON client_seen (client_id) WHERE news IS NOT NULL;
