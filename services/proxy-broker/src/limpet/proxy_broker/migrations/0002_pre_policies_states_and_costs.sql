-- What a person decides about a domain's proxies. No row means these defaults; null means the broker's own setting.
CREATE TABLE policies (
    domain                text PRIMARY KEY,
    strategy              text NOT NULL DEFAULT 'lru',
    -- Sticky: the same proxy for a session, until it was not used for so long, or for each hour.
    sticky_by             text NOT NULL DEFAULT 'session',
    sticky_for            interval NOT NULL DEFAULT '10 minutes',
    country_code          text NOT NULL DEFAULT '',
    providers             text[] NOT NULL DEFAULT '{}',
    kinds                 text[] NOT NULL DEFAULT '{}',
    -- Cheapest first: a domain climbs when a tier is refused. Empty means that all kinds are alike.
    tiers                 text[] NOT NULL DEFAULT '{}',
    pair_failures         integer,
    pair_cooldown         interval,
    block_cooldown        interval,
    wave_proxies          integer,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT policies_strategy CHECK (strategy IN ('lru', 'sticky', 'weighted')),
    CONSTRAINT policies_sticky_by CHECK (sticky_by IN ('session', 'hour')),
    CONSTRAINT policies_sticky_for CHECK (sticky_for > interval '0'),
    CONSTRAINT policies_country CHECK (country_code ~ '^([A-Z]{2})?$'),
    CONSTRAINT policies_kinds CHECK (kinds <@ ARRAY['datacenter', 'residential', 'mobile']),
    CONSTRAINT policies_tiers CHECK (tiers <@ ARRAY['direct', 'datacenter', 'residential', 'mobile']),
    CONSTRAINT policies_pair_failures CHECK (pair_failures > 0),
    CONSTRAINT policies_cooldowns CHECK (pair_cooldown >= interval '0' AND block_cooldown >= interval '0'),
    CONSTRAINT policies_wave_proxies CHECK (wave_proxies > 0)
);

-- What the brokers have learned about a domain together. Locked after pairs; written only where something changes.
CREATE TABLE domain_states (
    domain                text PRIMARY KEY,
    -- The tier in use; empty means the cheapest of the policy.
    tier                  text NOT NULL DEFAULT '',
    tier_changed_at       timestamptz,
    -- From then on single leases of the next cheaper tier find out whether it is good again.
    tier_probe_at         timestamptz,
    tier_relapses         integer NOT NULL DEFAULT 0,
    -- Distinct proxies that the site refused since the last success; 0 stands for no proxy at all.
    wave                  bigint[] NOT NULL DEFAULT '{}',
    wave_began_at         timestamptz,
    -- The site refuses whatever comes: no lease before then.
    held_until            timestamptz,
    holds                 integer NOT NULL DEFAULT 0
);

-- Which proxy a session, or an hour (empty session), keeps.
CREATE TABLE stickies (
    domain                text NOT NULL,
    session_key           text NOT NULL,
    proxy_id              bigint NOT NULL REFERENCES proxies ON DELETE CASCADE,
    kept_until            timestamptz NOT NULL,
    PRIMARY KEY (domain, session_key)
);
CREATE INDEX stickies_expiry ON stickies (kept_until);
CREATE INDEX stickies_proxy ON stickies (proxy_id);

-- Domains as the scheduler announces them: an alert must know those that have no proxy at all.
CREATE TABLE domains (
    name                  text PRIMARY KEY,
    proxy_policy          text NOT NULL,
    active                boolean NOT NULL,
    changed_at            timestamptz NOT NULL
);

ALTER TABLE proxies
    ADD COLUMN cost_per_gb        numeric(10, 4),
    -- Decayed shares of successes and blocks, for the weighted strategy.
    ADD COLUMN success_share      double precision,
    ADD COLUMN block_share        double precision,
    ADD COLUMN shared_at          timestamptz,
    ADD CONSTRAINT proxies_costs CHECK (monthly_cost >= 0 AND cost_per_gb >= 0);

ALTER TABLE pairs
    -- The blocklist: datacenter proxies that this site refused.
    ADD COLUMN blocked_until      timestamptz,
    ADD COLUMN last_blocked_at    timestamptz,
    ADD COLUMN last_error         text NOT NULL DEFAULT '',
    ADD COLUMN success_share      double precision,
    ADD COLUMN block_share        double precision,
    ADD COLUMN shared_at          timestamptz,
    ADD COLUMN byte_count         bigint NOT NULL DEFAULT 0,
    -- How much of the totals stands in usage_hours already.
    ADD COLUMN rolled_success     bigint NOT NULL DEFAULT 0,
    ADD COLUMN rolled_failure     bigint NOT NULL DEFAULT 0,
    ADD COLUMN rolled_block       bigint NOT NULL DEFAULT 0,
    ADD COLUMN rolled_bytes       bigint NOT NULL DEFAULT 0;

-- A null proxy is the direct way, leased so that its outcome is learned. A probe's failure counts against nobody.
ALTER TABLE leases
    ALTER COLUMN proxy_id DROP NOT NULL,
    ADD COLUMN probe              text NOT NULL DEFAULT '',
    ADD CONSTRAINT leases_probe CHECK (probe IN ('', 'proxy', 'pair', 'tier'));

-- What each proxy did for each domain, hour by hour, and what that hour cost there. Outlives the proxy.
CREATE TABLE usage_hours (
    hour                  timestamptz NOT NULL,
    domain                text NOT NULL,
    proxy_id              bigint NOT NULL,
    provider              text NOT NULL,
    success_count         bigint NOT NULL DEFAULT 0,
    failure_count         bigint NOT NULL DEFAULT 0,
    block_count           bigint NOT NULL DEFAULT 0,
    byte_count            bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, domain, proxy_id)
);

-- A month's money for a domain or a provider.
CREATE TABLE budgets (
    scope                 text NOT NULL,
    name                  text NOT NULL,
    monthly_amount        numeric(12, 2) NOT NULL,
    -- An alert is raised from this share on; at the whole amount leases stop.
    alert_share           double precision NOT NULL DEFAULT 0.8,
    month                 date,
    spent                 numeric(14, 6) NOT NULL DEFAULT 0,
    state                 text NOT NULL DEFAULT 'open',
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, name),
    CONSTRAINT budgets_scope CHECK (scope IN ('domain', 'provider')),
    CONSTRAINT budgets_state CHECK (state IN ('open', 'warned', 'stopped')),
    CONSTRAINT budgets_amount CHECK (monthly_amount >= 0),
    CONSTRAINT budgets_alert_share CHECK (alert_share > 0 AND alert_share <= 1)
);
