-- What happened to domains and is still to be announced: the event itself, so that the last word about a deleted one is kept too.
CREATE TABLE domain_changes (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain_id bigint NOT NULL,
    event     bytea NOT NULL
);
