-- How often each field was filled, by the hour. The field `*` counts pages, and those that had any item.
CREATE TABLE quality_hours (
    domain text NOT NULL,
    parser text NOT NULL,
    hour timestamptz NOT NULL,
    field text NOT NULL,
    seen bigint NOT NULL,
    filled bigint NOT NULL,
    -- Of the field `*` only: its hour is over and taken into the past of all fields.
    judged boolean NOT NULL DEFAULT false,
    PRIMARY KEY (domain, parser, hour, field),
    CONSTRAINT quality_hours_filled_were_seen CHECK (filled BETWEEN 0 AND seen)
);

CREATE INDEX quality_hours_by_hour ON quality_hours (hour);
CREATE INDEX quality_hours_to_judge ON quality_hours (hour) WHERE field = '*' AND NOT judged;

-- What is usual, and what is not now.
CREATE TABLE quality_fields (
    field_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain text NOT NULL,
    parser text NOT NULL,
    field text NOT NULL,
    baseline double precision NOT NULL DEFAULT 0,
    weight double precision NOT NULL DEFAULT 0,
    -- The last rate that was judged, and of how many.
    rate double precision NOT NULL DEFAULT 0,
    seen bigint NOT NULL DEFAULT 0,
    -- The last hour that it was judged by, and the last one in the baseline.
    judged_hour timestamptz NOT NULL,
    hour timestamptz NOT NULL,
    dropped_at timestamptz,
    -- Its last change was announced.
    told boolean NOT NULL DEFAULT true,
    CONSTRAINT quality_fields_once UNIQUE (domain, parser, field)
);

CREATE INDEX quality_fields_dropped ON quality_fields (field_id) WHERE dropped_at IS NOT NULL;
CREATE INDEX quality_fields_untold ON quality_fields (field_id) WHERE NOT told;
