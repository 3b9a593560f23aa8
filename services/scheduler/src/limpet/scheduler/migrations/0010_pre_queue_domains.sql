-- The queue of domains: those that something may be granted to, by when. It stands beside them, so that the changes of a
-- domain write no index: every order counts on its row.
CREATE TABLE ready_domains (
    place     timestamptz NOT NULL,
    domain_id bigint NOT NULL,
    PRIMARY KEY (place, domain_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

ALTER TABLE domains
    -- Where it stands in that queue; NULL while it stands nowhere.
    ADD COLUMN place   timestamptz,
    -- Whether any of its tasks ever had a group: without, nobody need look for them.
    ADD COLUMN grouped boolean NOT NULL DEFAULT false;

CREATE FUNCTION place_of(is_active boolean, in_flight integer, limit_now integer, ready_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN is_active AND in_flight < limit_now AND ready_at < 'infinity' THEN ready_at END;

UPDATE domains d
   SET place = place_of(is_active, in_flight, limit_now, ready_at),
       grouped = EXISTS (SELECT FROM domain_groups g WHERE g.domain_id = d.domain_id);
INSERT INTO ready_domains SELECT place, domain_id FROM domains WHERE place IS NOT NULL;

-- Dispatch and settling move domains themselves, many in a statement. Whoever else changes one is followed by this.
CREATE FUNCTION follow_domain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.place IS NOT NULL THEN
        DELETE FROM ready_domains WHERE place = OLD.place AND domain_id = OLD.domain_id;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN NULL;
    END IF;
    UPDATE domains SET place = place_of(NEW.is_active, NEW.in_flight, NEW.limit_now, NEW.ready_at)
     WHERE domain_id = NEW.domain_id;
    INSERT INTO ready_domains
    SELECT place, NEW.domain_id FROM place_of(NEW.is_active, NEW.in_flight, NEW.limit_now, NEW.ready_at) AS place
     WHERE place IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER domains_follow AFTER UPDATE ON domains FOR EACH ROW
    WHEN (NEW.place IS DISTINCT FROM place_of(NEW.is_active, NEW.in_flight, NEW.limit_now, NEW.ready_at))
    EXECUTE FUNCTION follow_domain();
CREATE TRIGGER domains_leave AFTER DELETE ON domains FOR EACH ROW WHEN (OLD.place IS NOT NULL) EXECUTE FUNCTION follow_domain();
