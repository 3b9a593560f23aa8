-- What a batch follows, how much of it, and what it has left out.
ALTER TABLE batches
    ADD COLUMN scope     jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN priority  smallint NOT NULL DEFAULT 5,
    -- Sitemaps of its domains are read.
    ADD COLUMN sitemaps  boolean NOT NULL DEFAULT false,
    ADD COLUMN max_bytes bigint,
    ADD COLUMN bytes     bigint NOT NULL DEFAULT 0,
    -- Guessed addresses where there was nothing: neither crawled nor failed.
    ADD COLUMN missed    bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT max_bytes_positive CHECK (max_bytes > 0),
    ADD CONSTRAINT batch_priority_in_range CHECK (priority BETWEEN 1 AND 10);
CREATE INDEX batches_with_bytes ON batches (batch_id) WHERE max_bytes IS NOT NULL;

ALTER TABLE crawl_tasks
    -- Links from where the batch began.
    ADD COLUMN depth smallint NOT NULL DEFAULT 0,
    DROP CONSTRAINT known_kind,
    ADD CONSTRAINT known_kind CHECK (kind IN ('page', 'robots', 'list', 'sitemap', 'probe')) NOT VALID;
ALTER TABLE crawl_tasks VALIDATE CONSTRAINT known_kind;

-- Links that a batch did not follow, by reason. A process counts each link once, so the figures are close, not exact.
CREATE TABLE batch_rejections (
    batch_id bigint NOT NULL,
    reason   text NOT NULL,
    links    bigint NOT NULL DEFAULT 0,
    example  text NOT NULL,
    PRIMARY KEY (batch_id, reason)
);

-- How many addresses of a shape that may never end were taken: calendars, combinations of filters, hosts.
CREATE TABLE batch_shapes (
    batch_id bigint NOT NULL,
    shape    text NOT NULL,
    pages    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (batch_id, shape)
);

-- How lists of a domain are numbered, by the pattern of their paths.
CREATE TABLE pagination_rules (
    rule_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain_id    bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    path_pattern text NOT NULL,
    style        text NOT NULL,
    key          text NOT NULL,
    step         integer NOT NULL DEFAULT 1,
    state        text NOT NULL,
    -- Where the last list that used it ended.
    exhausted_at integer,
    worked       bigint NOT NULL DEFAULT 0,
    missed       bigint NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT known_style CHECK (style IN ('query', 'path')),
    CONSTRAINT known_rule_state CHECK (state IN ('learning', 'valid', 'exhausted', 'invalid')),
    UNIQUE (domain_id, path_pattern, style, key)
);

-- The lists that a batch follows: what limpet.scheduler.pagination knows of each.
CREATE TABLE followed_lists (
    batch_id bigint NOT NULL,
    stem     text NOT NULL,
    state    jsonb NOT NULL,
    PRIMARY KEY (batch_id, stem)
) WITH (fillfactor = 70);

ALTER TABLE domains
    ADD COLUMN discover       text NOT NULL DEFAULT 'off',
    ADD COLUMN discover_below integer NOT NULL DEFAULT 10,
    ADD COLUMN discovered_at  timestamptz,
    ADD CONSTRAINT known_discover CHECK (discover IN ('off', 'sitemaps', 'archives'));
CREATE INDEX domains_discovering ON domains (discovered_at NULLS FIRST) WHERE discover <> 'off';

-- Addresses that may be archives, and one that cannot exist: what came of asking.
CREATE TABLE probes (
    task_id     bigint PRIMARY KEY,
    domain_id   bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    url         text NOT NULL,
    -- It cannot exist: what the site says there, it says of every page that is missing.
    is_canary   boolean NOT NULL,
    state       text NOT NULL DEFAULT 'asked',
    http_status smallint,
    fingerprint bytea,
    -- The 64 bits as a signed number.
    simhash     bigint,
    says_empty  boolean NOT NULL DEFAULT false,
    CONSTRAINT known_probe_state CHECK (state IN ('asked', 'answered', 'missing', 'soft_404', 'found'))
);
CREATE INDEX probes_of_domain ON probes (domain_id, state);
