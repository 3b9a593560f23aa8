-- One row per event that somebody wants to be told about. It is written with the event, so that neither is without the other.
CREATE TABLE webhook_deliveries (
    -- Made in the order of time (UUID version 7); receivers know a repeated delivery by it.
    delivery_id  uuid PRIMARY KEY,
    url          text NOT NULL,
    -- scheme://host:port of the url.
    endpoint     text NOT NULL,
    event        text NOT NULL,
    -- As it is signed and sent, byte for byte the same in every try.
    body         text NOT NULL,
    state        text NOT NULL DEFAULT 'pending',
    tries        integer NOT NULL DEFAULT 0,
    next_try_at  timestamptz NOT NULL DEFAULT now(),
    -- Set while somebody is sending it; then next_try_at is the end of that lease.
    leased_until timestamptz,
    last_status  smallint,
    last_error   text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    CONSTRAINT known_state CHECK (state IN ('pending', 'delivered', 'dead'))
) WITH (fillfactor = 80);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint, next_try_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_over ON webhook_deliveries (created_at) WHERE state <> 'pending';
