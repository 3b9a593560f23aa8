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
