-- Every answer that a site gave: one row per attempt.
CREATE TABLE http_responses (
    task_id bigint NOT NULL,
    attempt integer NOT NULL,
    domain text NOT NULL,
    url text NOT NULL,
    http_status integer NOT NULL,
    content_type text NOT NULL,
    size_bytes integer NOT NULL,
    -- Empty where the body was not kept.
    body_key text NOT NULL,
    response_ms integer NOT NULL,
    verdict text NOT NULL CONSTRAINT http_responses_verdict_known
        CHECK (verdict IN ('fetched', 'blocked', 'garbage', 'needs_render', 'redirected', 'failed')),
    reason text NOT NULL,
    fetched_at timestamptz NOT NULL,
    PRIMARY KEY (task_id, attempt)
);

CREATE INDEX http_responses_by_age ON http_responses USING brin (fetched_at);

-- Every body that is kept, by its SHA-256: the same bytes are stored once, whoever fetched them.
CREATE TABLE bodies (
    digest bytea PRIMARY KEY CONSTRAINT digest_is_sha256 CHECK (octet_length(digest) = 32),
    body_key text NOT NULL,
    size_bytes integer NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
);
