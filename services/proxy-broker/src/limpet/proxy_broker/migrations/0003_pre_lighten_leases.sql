-- A lease is written and deleted for every page. Each index on it costs at both times, and a foreign key looks its proxy
-- up again although the proxy's row is locked then. What a removed proxy leaves behind goes by a trigger instead.
DROP INDEX leases_proxy;
ALTER TABLE leases DROP CONSTRAINT leases_proxy_id_fkey;

CREATE FUNCTION close_leases() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM leases WHERE proxy_id = OLD.proxy_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER close_leases AFTER DELETE ON proxies FOR EACH ROW EXECUTE FUNCTION close_leases();

-- A pair on probation has one lease at a time. Hardly any lease is a probe.
CREATE INDEX leases_probes ON leases (domain, proxy_id) WHERE probe <> '';
-- Whether a domain has a pool of its own is asked in every call, also for domains with many pairs and no pool.
CREATE INDEX pairs_pool ON pairs (domain) WHERE assigned;
-- Most pairs are well, and then a lease of a shared proxy need not know the pair.
CREATE INDEX pairs_trouble ON pairs (domain, proxy_id)
    WHERE operator_disabled OR cooling_until IS NOT NULL OR blocked_until IS NOT NULL OR consecutive_failures > 0;
-- Generated columns are reckoned anew whenever the row changes, which is twice for every lease; the limit hardly ever does.
ALTER TABLE proxies ALTER charge_every DROP EXPRESSION, ALTER charge_ahead DROP EXPRESSION;
CREATE FUNCTION set_charges() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    at_once integer := greatest(NEW.max_requests_per_hour / 10, 1);
BEGIN
    -- No limit makes both null; greatest() would hide that.
    NEW.charge_every := make_interval(secs =>
        3600.0 / CASE WHEN NEW.max_requests_per_hour = 1 THEN 1 ELSE NEW.max_requests_per_hour - at_once END);
    NEW.charge_ahead := NEW.charge_every * (at_once - 1);
    RETURN NEW;
END
$$;
CREATE TRIGGER set_charges BEFORE INSERT OR UPDATE OF max_requests_per_hour ON proxies
    FOR EACH ROW EXECUTE FUNCTION set_charges();
