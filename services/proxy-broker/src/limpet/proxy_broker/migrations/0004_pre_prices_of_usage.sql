-- Prices as they were in that hour: a proxy may be removed or become dearer, and what was spent stays what it was.
ALTER TABLE usage_hours
    ADD COLUMN monthly_cost       numeric(10, 2),
    ADD COLUMN cost_per_gb        numeric(10, 4);

-- The last hours of each domain, minute by minute: an alert about the last hour cannot wait for the clock to strike.
CREATE TABLE usage_minutes (
    minute                timestamptz NOT NULL,
    domain                text NOT NULL,
    success_count         bigint NOT NULL DEFAULT 0,
    failure_count         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, domain)
);

COMMENT ON COLUMN proxies.password_sealed IS
    'AES-256-GCM token `v1:<key id>:<base64>`, bound to the proxy''s id; null means no password.';
