-- Domains: the rest of their settings, and what breaker, adaptive limits and robots.txt have decided so far.
ALTER TABLE domains
    ALTER COLUMN slot_tolerance_seconds SET DEFAULT 0,
    ADD COLUMN obey_robots              boolean NOT NULL DEFAULT true,
    ADD COLUMN robots_delay_seconds     double precision NOT NULL DEFAULT 0,
    ADD COLUMN robots_version           bigint NOT NULL DEFAULT 0,
    -- Origins whose robots.txt has never been read. Nothing but robots.txt is fetched before.
    ADD COLUMN robots_unread            integer NOT NULL DEFAULT 0,
    ADD COLUMN maintenance_start        time,
    ADD COLUMN maintenance_end          time,
    ADD COLUMN maintenance_zone         text NOT NULL DEFAULT 'UTC',
    ADD COLUMN breaker_failures         integer NOT NULL DEFAULT 5,
    ADD COLUMN breaker_rate             double precision NOT NULL DEFAULT 0.5,
    ADD COLUMN breaker_window_seconds   double precision NOT NULL DEFAULT 60,
    ADD COLUMN breaker_cooldown_seconds double precision NOT NULL DEFAULT 60,
    ADD COLUMN breaker_successes        integer NOT NULL DEFAULT 5,
    ADD COLUMN breaker_state            text NOT NULL DEFAULT 'closed',
    ADD COLUMN breaker_opened_at        timestamptz,
    ADD COLUMN breaker_in_a_row         integer NOT NULL DEFAULT 0,
    ADD COLUMN breaker_window_at        timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN breaker_good             integer NOT NULL DEFAULT 0,
    ADD COLUMN breaker_bad              integer NOT NULL DEFAULT 0,
    -- Proxies that were blocked in the window, by id, comma-separated.
    ADD COLUMN breaker_proxies          text NOT NULL DEFAULT '',
    ADD COLUMN breaker_reason           text,
    -- How many requests at once the site bears at present; never above max_concurrent_requests.
    ADD COLUMN bearable                 double precision NOT NULL DEFAULT 'infinity',
    ADD COLUMN shrunk_at                timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN limit_now                integer,
    ADD CONSTRAINT maintenance_has_two_ends CHECK ((maintenance_start IS NULL) = (maintenance_end IS NULL)),
    ADD CONSTRAINT known_breaker_state CHECK (breaker_state IN ('closed', 'open', 'half_open'));

UPDATE domains SET limit_now = max_concurrent_requests, obey_robots = true;
ALTER TABLE domains ALTER COLUMN limit_now SET NOT NULL;
CREATE INDEX domains_servable ON domains (ready_at) WHERE is_active AND in_flight < limit_now;

-- What is known of the robots.txt of each origin: a domain has one for each scheme.
CREATE TABLE robots (
    domain_id  bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    scheme     text NOT NULL,
    -- `unread` until its first answer; `unreachable` while there is none; `absent` allows all; `read` has rules.
    state      text NOT NULL DEFAULT 'unread',
    content    text NOT NULL DEFAULT '',
    sitemaps   text[] NOT NULL DEFAULT '{}',
    delay_seconds double precision NOT NULL DEFAULT 0,
    fetched_at timestamptz,
    note       text,
    PRIMARY KEY (domain_id, scheme),
    CONSTRAINT known_robots_state CHECK (state IN ('unread', 'unreachable', 'absent', 'read'))
);

ALTER TABLE domain_groups
    ADD COLUMN bearable      double precision NOT NULL DEFAULT 'infinity',
    ADD COLUMN shrunk_at     timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN limit_now     integer,
    ADD COLUMN has_due       boolean NOT NULL DEFAULT true,
    ADD COLUMN head_priority smallint NOT NULL DEFAULT 0,
    ADD COLUMN served_at     timestamptz NOT NULL DEFAULT '-infinity';
UPDATE domain_groups g SET limit_now = d.max_per_group FROM domains d WHERE d.domain_id = g.domain_id;
ALTER TABLE domain_groups ALTER COLUMN limit_now SET NOT NULL;
CREATE INDEX domain_groups_open ON domain_groups (domain_id, head_priority, served_at) WHERE has_due AND in_flight < limit_now;

ALTER TABLE batches
    ADD COLUMN webhook_url text,
    -- Tasks of the batch that have not ended. Paused ones have not.
    ADD COLUMN open_tasks  bigint NOT NULL DEFAULT 0,
    ADD COLUMN ended_at    timestamptz;
UPDATE batches b SET open_tasks = (SELECT count(*) FROM crawl_tasks t
    WHERE t.batch_id = b.batch_id AND t.status NOT IN ('completed', 'failed', 'cancelled'));

ALTER TABLE crawl_tasks
    ADD COLUMN kind              text NOT NULL DEFAULT 'page',
    ADD COLUMN note              text,
    ADD COLUMN next_crawl_at     timestamptz,
    ADD COLUMN paused_from       text,
    ADD COLUMN parent_task_id    bigint REFERENCES crawl_tasks ON DELETE SET NULL,
    ADD COLUMN on_parent_failure text NOT NULL DEFAULT 'cancel',
    ADD COLUMN awaits_parent     boolean NOT NULL DEFAULT false,
    ADD COLUMN has_children      boolean NOT NULL DEFAULT false,
    ADD COLUMN webhook_url       text,
    -- The status where a task stays until somebody or the calendar moves it; NULL while it is on its way. Only this is
    -- indexed, so that the changes in between write no index.
    ADD COLUMN resting           text,
    DROP CONSTRAINT priority_in_range,
    -- 0 is robots.txt, which goes before everything.
    ADD CONSTRAINT priority_in_range CHECK (priority BETWEEN 0 AND 10),
    ADD CONSTRAINT known_kind CHECK (kind IN ('page', 'robots')),
    ADD CONSTRAINT known_on_parent_failure CHECK (on_parent_failure IN ('cancel', 'release')),
    ADD CONSTRAINT paused_from_somewhere CHECK ((status = 'paused') = (paused_from IS NOT NULL)),
    ADD CONSTRAINT resting_is_the_status CHECK (
        resting IS NOT DISTINCT FROM CASE WHEN status IN ('completed', 'failed', 'cancelled', 'paused') THEN status END
    ) NOT VALID;
UPDATE crawl_tasks SET resting = status WHERE status IN ('completed', 'failed', 'cancelled', 'paused');
ALTER TABLE crawl_tasks VALIDATE CONSTRAINT resting_is_the_status;

CREATE INDEX crawl_tasks_of_domain ON crawl_tasks (domain_id, resting, task_id);
CREATE INDEX crawl_tasks_of_batch ON crawl_tasks (batch_id, resting, task_id) WHERE batch_id IS NOT NULL;
CREATE INDEX crawl_tasks_stopped ON crawl_tasks (resting, task_id) WHERE resting IN ('failed', 'cancelled', 'paused');
CREATE INDEX crawl_tasks_open ON crawl_tasks (task_id) WHERE resting IS NULL;
CREATE INDEX crawl_tasks_of_parent ON crawl_tasks (parent_task_id) WHERE awaits_parent;

-- The queue: pending tasks whose time has come, in the order in which their domain takes them. '' is no group.
CREATE TABLE due_tasks (
    domain_id bigint NOT NULL,
    group_key text NOT NULL,
    priority  smallint NOT NULL,
    due_at    timestamptz NOT NULL,
    task_id   bigint NOT NULL,
    PRIMARY KEY (domain_id, group_key, priority, due_at, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- The calendar: pending tasks whose time is yet to come, and ended ones that are crawled again then.
CREATE TABLE waiting_tasks (
    wake_at timestamptz NOT NULL,
    task_id bigint NOT NULL,
    PRIMARY KEY (wake_at, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

INSERT INTO due_tasks SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id
  FROM crawl_tasks WHERE status = 'pending' AND scheduled_at <= now();
INSERT INTO waiting_tasks SELECT scheduled_at, task_id FROM crawl_tasks WHERE status = 'pending' AND scheduled_at > now();

-- Parents that have ended and whose children have not heard of it yet.
CREATE TABLE parent_ends (
    task_id bigint PRIMARY KEY,
    outcome text NOT NULL
);

-- One row per page that a parser owes an answer for.
CREATE TABLE parse_leases (
    task_id     bigint PRIMARY KEY,
    lease_until timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX parse_leases_until ON parse_leases (lease_until);
INSERT INTO parse_leases SELECT task_id, coalesce(parse_lease_until, now()) FROM crawl_tasks
 WHERE status IN ('downloaded', 'queued_parse', 'parsing');

-- History by month, so that old months go in one stroke.
CREATE FUNCTION make_month(parent text, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', month);
    name text := parent || to_char(first, '_YYYY_MM');
BEGIN
    IF to_regclass(quote_ident(name)) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, parent, first, first + interval '1 month');
    RETURN true;
END $$;

ALTER TABLE attempts RENAME TO attempts_before_months;
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
    CONSTRAINT attempts_known_phase CHECK (phase IN ('fetch', 'parse'))
) PARTITION BY RANGE (ended_at);
CREATE INDEX attempts_of_task ON attempts (task_id, attempt, phase);
CREATE TABLE attempts_other PARTITION OF attempts DEFAULT;

-- Every change of a status: who, when, from, to, why.
CREATE TABLE audit (
    at      timestamptz NOT NULL DEFAULT now(),
    task_id bigint NOT NULL,
    source  text,
    target  text NOT NULL,
    event   text NOT NULL,
    actor   text NOT NULL,
    reason  text
) PARTITION BY RANGE (at);
CREATE INDEX audit_of_task ON audit (task_id, at);
CREATE TABLE audit_other PARTITION OF audit DEFAULT;

SELECT make_month(parent, (date_trunc('month', now()) + make_interval(months => ahead))::date)
  FROM unnest(ARRAY['attempts', 'audit']) AS parent, generate_series(0, 2) AS ahead;
INSERT INTO attempts SELECT * FROM attempts_before_months;
