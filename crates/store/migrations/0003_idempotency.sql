-- What calls with an idempotency key answered, so that a repeat answers the same. Written in the transaction of the effect.
-- Only hashes of key and request; the answer is sealed by the server. It is empty when it was not kept.
-- `seq` counts per token, so that a token's oldest entries can go without counting the others.
CREATE TABLE idempotency_keys (
    token_id TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    answer BYTEA NOT NULL,
    seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (token_id, key_hash)
);
CREATE INDEX idempotency_keys_by_token ON idempotency_keys (token_id, seq);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
