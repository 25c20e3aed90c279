-- Answers that are marked sensitive are sealed under a key that is kept outside of the database.
-- Texts say by their beginning that they are sealed. For a blob it is the id of the key; digest and size are those of the clear bytes.
ALTER TABLE blobs ADD COLUMN sealed_with TEXT;

-- A single row: the key everything here is sealed with, and since when nothing sensitive of before is left in the clear.
CREATE TABLE seal_key (
    id BIGINT NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL,
    noted_at BIGINT NOT NULL,
    older_sealed_at BIGINT
);
