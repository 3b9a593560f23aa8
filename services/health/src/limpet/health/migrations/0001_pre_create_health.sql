-- Seed E's two tables in PostgreSQL's terms. Its cricket name "match" is our "target".

CREATE TABLE scraper_health_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scraper_id text NOT NULL,
    service text NOT NULL,
    target_key text,
    timestamp timestamptz NOT NULL DEFAULT now(),

    health_status text NOT NULL
        CONSTRAINT health_status_known CHECK (health_status IN ('healthy', 'degraded', 'failing')),
    error_count integer NOT NULL DEFAULT 0,
    memory_mb double precision,
    cpu_percent double precision,

    update_latency_ms integer,
    polling_interval_seconds double precision,

    uptime_seconds integer,
    last_update_age_seconds integer,

    -- Replicas write the same rounded moments, so each worker has one row per moment.
    CONSTRAINT scraper_health_log_once UNIQUE (scraper_id, timestamp)
);
CREATE INDEX scraper_health_log_target ON scraper_health_log (target_key, timestamp) WHERE target_key IS NOT NULL;
CREATE INDEX scraper_health_log_status ON scraper_health_log (health_status, timestamp);
CREATE INDEX scraper_health_log_age ON scraper_health_log (timestamp);

CREATE TABLE scraper_errors (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scraper_id text NOT NULL,
    service text NOT NULL,
    target_key text,
    task_id bigint,
    timestamp timestamptz NOT NULL DEFAULT now(),

    error_type text NOT NULL CONSTRAINT error_type_known CHECK (
        error_type IN ('network', 'parsing', 'browser', 'database', 'auth', 'blocked', 'proxy', 'unknown')
    ),
    error_message text,
    stack_trace text,

    url text,
    operation text,
    retry_attempt integer NOT NULL DEFAULT 0,

    resolved boolean NOT NULL DEFAULT false,
    resolution_time timestamptz,
    resolution_method text CONSTRAINT resolution_method_known CHECK (
        resolution_method IN ('auto_retry', 'circuit_breaker', 'manual', 'restart')
    ),

    -- The message that brought it and its place there: a redelivery writes nothing twice.
    batch_id text NOT NULL,
    batch_index integer NOT NULL,
    CONSTRAINT scraper_errors_once UNIQUE (batch_id, batch_index),
    CONSTRAINT resolved_has_time CHECK (resolved = (resolution_time IS NOT NULL))
);
CREATE INDEX scraper_errors_scraper ON scraper_errors (scraper_id, timestamp);
CREATE INDEX scraper_errors_type ON scraper_errors (error_type, timestamp);
CREATE INDEX scraper_errors_unresolved ON scraper_errors (timestamp) WHERE NOT resolved;
CREATE INDEX scraper_errors_age ON scraper_errors (timestamp);
