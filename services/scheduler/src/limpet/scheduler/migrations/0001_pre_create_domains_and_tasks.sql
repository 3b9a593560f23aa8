CREATE TABLE domains (
    domain_id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                    text NOT NULL UNIQUE,
    base_url                text NOT NULL,
    parser_name             text NOT NULL DEFAULT 'generic',
    crawl_delay_seconds     double precision NOT NULL DEFAULT 1,
    slot_tolerance_seconds  double precision NOT NULL,
    max_concurrent_requests integer NOT NULL DEFAULT 5,
    max_per_group           integer NOT NULL DEFAULT 5,
    default_crawl_frequency interval NOT NULL DEFAULT '1 day',
    is_active               boolean NOT NULL DEFAULT true,
    user_agent              text NOT NULL,
    proxy_policy            text NOT NULL DEFAULT 'none',
    min_body_bytes          integer NOT NULL DEFAULT 0,
    created_at              timestamptz NOT NULL DEFAULT now(),
    updated_at              timestamptz NOT NULL DEFAULT now(),
    -- What politeness is decided by, always under this row's lock.
    in_flight               integer NOT NULL DEFAULT 0,
    next_slot_at            timestamptz NOT NULL DEFAULT '-infinity',
    held_until              timestamptz NOT NULL DEFAULT '-infinity',
    held_reason             text,
    ready_at                timestamptz NOT NULL DEFAULT 'infinity',
    CONSTRAINT delay_in_range CHECK (crawl_delay_seconds BETWEEN 0 AND 3600),
    CONSTRAINT concurrency_in_range CHECK (max_concurrent_requests BETWEEN 1 AND 10000),
    CONSTRAINT per_group_in_range CHECK (max_per_group BETWEEN 1 AND 10000),
    CONSTRAINT in_flight_not_negative CHECK (in_flight >= 0),
    CONSTRAINT known_proxy_policy CHECK (proxy_policy IN ('none', 'preferred', 'required'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX domains_ready ON domains (ready_at) WHERE is_active AND in_flight < max_concurrent_requests;

CREATE TABLE domain_groups (
    domain_id bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    group_key text NOT NULL,
    in_flight integer NOT NULL DEFAULT 0,
    PRIMARY KEY (domain_id, group_key),
    CONSTRAINT group_in_flight_not_negative CHECK (in_flight >= 0)
);

CREATE TABLE batches (
    batch_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    follow     boolean NOT NULL DEFAULT false,
    recrawl    boolean NOT NULL DEFAULT false,
    max_pages  bigint,
    pages      bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT max_pages_positive CHECK (max_pages > 0)
);

CREATE TABLE crawl_tasks (
    task_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain_id         bigint NOT NULL REFERENCES domains,
    url               text NOT NULL,
    url_hash          bytea NOT NULL UNIQUE,
    status            text NOT NULL DEFAULT 'pending',
    priority          smallint NOT NULL DEFAULT 5,
    scheduled_at      timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    completed_at      timestamptz,
    -- The fence: a fact counts only for the attempt it names.
    attempt           integer NOT NULL DEFAULT 0,
    -- Attempts above this number belong to the current crawl.
    crawl_base        integer NOT NULL DEFAULT 0,
    fetch_errors      smallint NOT NULL DEFAULT 0,
    fetch_losses      smallint NOT NULL DEFAULT 0,
    blocks            smallint NOT NULL DEFAULT 0,
    parse_errors      smallint NOT NULL DEFAULT 0,
    parse_losses      smallint NOT NULL DEFAULT 0,
    redirects         smallint NOT NULL DEFAULT 0,
    max_retries       smallint NOT NULL DEFAULT 3,
    error_message     text,
    crawl_frequency   interval,
    is_recurring      boolean NOT NULL DEFAULT true,
    recrawl_count     integer NOT NULL DEFAULT 0,
    -- Where the page is now, when the site moved it inside the domain.
    moved_to          text,
    -- The PageFetched of the page in hand, so that parsing can be asked for again.
    page_fact         bytea,
    parse_lease_until timestamptz,
    http_status_code  smallint,
    response_time_ms  integer,
    proxy_id          bigint,
    group_key         text,
    batch_id          bigint REFERENCES batches,
    parser_name       text,
    trace_id          uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    created_by        text NOT NULL DEFAULT 'api',
    -- Text, not an enum: drivers look an enum up on every new connection.
    CONSTRAINT known_status CHECK (status IN ('pending', 'queued', 'crawling', 'downloaded', 'queued_parse', 'parsing',
                                              'completed', 'failed', 'paused', 'cancelled')),
    CONSTRAINT hash_is_sha256 CHECK (octet_length(url_hash) = 32),
    CONSTRAINT priority_in_range CHECK (priority BETWEEN 1 AND 10)
) WITH (fillfactor = 80);

CREATE INDEX crawl_tasks_due ON crawl_tasks (domain_id, priority, scheduled_at) WHERE status = 'pending';
CREATE INDEX crawl_tasks_parse_lease ON crawl_tasks (parse_lease_until) WHERE parse_lease_until IS NOT NULL;
CREATE INDEX crawl_tasks_batch ON crawl_tasks (batch_id, status) WHERE batch_id IS NOT NULL;
CREATE INDEX crawl_tasks_domain ON crawl_tasks (domain_id, task_id);

-- One row per order that is out: the permit is the outbox. It counts against domain and group until it is settled or expires.
CREATE TABLE permits (
    task_id     bigint NOT NULL,
    attempt     integer NOT NULL,
    domain_id   bigint NOT NULL,
    group_key   text,
    slot_at     timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (task_id, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX permits_lease ON permits (lease_until);

CREATE TABLE attempts (
    task_id     bigint NOT NULL,
    attempt     integer NOT NULL,
    phase       text NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz NOT NULL DEFAULT now(),
    outcome     text NOT NULL,
    http_status smallint,
    response_ms integer,
    proxy_id    bigint,
    page_key    text,
    error       text,
    PRIMARY KEY (task_id, attempt, phase),
    CONSTRAINT known_phase CHECK (phase IN ('fetch', 'parse'))
);

CREATE TABLE link_parts (
    task_id bigint NOT NULL,
    attempt integer NOT NULL,
    part    integer NOT NULL,
    PRIMARY KEY (task_id, attempt, part)
);
