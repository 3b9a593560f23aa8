-- Lock order everywhere: proxies by id, then leases, then pairs. Limits live on the proxy's own row, because only the locked
-- row is read afresh after a lock; a count over another table would be as old as the statement.

CREATE TABLE proxies (
    proxy_id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    protocol              text NOT NULL,
    host                  text NOT NULL,
    port                  integer NOT NULL,
    username              text NOT NULL DEFAULT '',
    -- Fernet token with the proxy's id inside; null means no password.
    password_sealed       text,
    kind                  text NOT NULL DEFAULT 'datacenter',
    country_code          text NOT NULL DEFAULT '',
    city                  text NOT NULL DEFAULT '',
    provider              text NOT NULL DEFAULT '',
    monthly_cost          numeric(10, 2),
    -- Null means no limit.
    max_requests_per_hour integer DEFAULT 1000,
    max_concurrent_leases integer NOT NULL DEFAULT 10,
    -- GCRA: a tenth of the limit may come at once, the rest is spread, so that any hour holds at most the limit.
    -- No limit makes both null; greatest() would hide that, so it never sees the limit alone.
    charge_every          interval GENERATED ALWAYS AS (make_interval(secs =>
                              3600.0 / CASE WHEN max_requests_per_hour = 1 THEN 1
                                            ELSE max_requests_per_hour - greatest(max_requests_per_hour / 10, 1) END)) STORED,
    charge_ahead          interval GENERATED ALWAYS AS (make_interval(secs => (greatest(max_requests_per_hour / 10, 1) - 1)
                              * 3600.0 / CASE WHEN max_requests_per_hour = 1 THEN 1
                                              ELSE max_requests_per_hour - greatest(max_requests_per_hour / 10, 1) END)) STORED,
    charged_until         timestamptz,
    open_leases           integer NOT NULL DEFAULT 0,
    -- A person's decision; nothing but a person changes it.
    operator_disabled     boolean NOT NULL DEFAULT false,
    -- The broker's own decision; ends by itself.
    cooling_until         timestamptz,
    relapses              integer NOT NULL DEFAULT 0,
    relapsed_at           timestamptz,
    consecutive_failures  integer NOT NULL DEFAULT 0,
    success_count         bigint NOT NULL DEFAULT 0,
    failure_count         bigint NOT NULL DEFAULT 0,
    block_count           bigint NOT NULL DEFAULT 0,
    avg_response_ms       double precision,
    last_used_at          timestamptz,
    last_success_at       timestamptz,
    last_failure_at       timestamptz,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT proxies_identity UNIQUE (protocol, host, port, username),
    CONSTRAINT proxies_protocol CHECK (protocol IN ('http', 'https', 'socks5')),
    CONSTRAINT proxies_kind CHECK (kind IN ('datacenter', 'residential', 'mobile')),
    CONSTRAINT proxies_port CHECK (port BETWEEN 1 AND 65535),
    CONSTRAINT proxies_country CHECK (country_code ~ '^([A-Z]{2})?$'),
    CONSTRAINT proxies_hourly_limit CHECK (max_requests_per_hour > 0),
    CONSTRAINT proxies_lease_limit CHECK (max_concurrent_leases > 0),
    CONSTRAINT proxies_open_leases CHECK (open_leases >= 0)
) WITH (fillfactor = 50);  -- each lease rewrites its row; no index covers what changes

-- A proxy and a domain it was used for. Assigned pairs are the domain's pool; the others only remember how it went.
CREATE TABLE pairs (
    domain                text NOT NULL,
    proxy_id              bigint NOT NULL REFERENCES proxies ON DELETE CASCADE,
    assigned              boolean NOT NULL DEFAULT false,
    priority              integer NOT NULL DEFAULT 5,
    operator_disabled     boolean NOT NULL DEFAULT false,
    cooling_until         timestamptz,
    relapses              integer NOT NULL DEFAULT 0,
    relapsed_at           timestamptz,
    consecutive_failures  integer NOT NULL DEFAULT 0,
    success_count         bigint NOT NULL DEFAULT 0,
    failure_count         bigint NOT NULL DEFAULT 0,
    block_count           bigint NOT NULL DEFAULT 0,
    avg_response_ms       double precision,
    last_used_at          timestamptz,
    last_success_at       timestamptz,
    last_failure_at       timestamptz,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain, proxy_id),
    CONSTRAINT pairs_priority CHECK (priority BETWEEN 1 AND 10)
) WITH (fillfactor = 50);
CREATE INDEX pairs_assigned ON pairs (proxy_id) WHERE assigned;

-- Only open leases; a reported or expired one is deleted, so a second report finds nothing.
CREATE TABLE leases (
    lease_id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    proxy_id              bigint NOT NULL REFERENCES proxies ON DELETE CASCADE,
    domain                text NOT NULL,
    task_id               bigint NOT NULL,
    attempt               integer NOT NULL,
    holder                text NOT NULL,
    leased_at             timestamptz NOT NULL DEFAULT now(),
    expires_at            timestamptz NOT NULL,
    CONSTRAINT leases_once_per_attempt UNIQUE (task_id, attempt)
);
CREATE INDEX leases_expiry ON leases (expires_at);
CREATE INDEX leases_proxy ON leases (proxy_id);

-- What is still to be announced; written with the change itself, so that no crash loses an announcement.
CREATE TABLE changes (
    change_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    proxy_id              bigint NOT NULL,
    active                boolean NOT NULL,
    removed               boolean NOT NULL,
    reason                text NOT NULL,
    changed_at            timestamptz NOT NULL DEFAULT clock_timestamp()
);
