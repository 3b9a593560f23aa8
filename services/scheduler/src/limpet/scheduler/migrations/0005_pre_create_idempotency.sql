-- Answers to POSTs that named an Idempotency-Key, so that a repeat gets the answer and does nothing.
CREATE TABLE idempotency_keys (
    -- SHA-256 of the caller's API key: two callers may use one key for two things.
    caller       bytea NOT NULL,
    route        text NOT NULL,
    key          text NOT NULL,
    body_hash    bytea NOT NULL,
    -- The fence: only the request that holds the key now may write its answer.
    claim        uuid NOT NULL DEFAULT gen_random_uuid(),
    -- All three are null while the request runs.
    status       smallint,
    content_type text,
    answer       bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (caller, route, key),
    CONSTRAINT caller_is_sha256 CHECK (octet_length(caller) = 32),
    CONSTRAINT body_hash_is_sha256 CHECK (octet_length(body_hash) = 32),
    CONSTRAINT key_length CHECK (length(key) BETWEEN 1 AND 255),
    CONSTRAINT answered_or_running CHECK (num_nulls(status, content_type, answer) IN (0, 3))
);

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
