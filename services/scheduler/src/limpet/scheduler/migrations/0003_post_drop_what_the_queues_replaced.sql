DROP INDEX domains_ready;
DROP INDEX crawl_tasks_due;
DROP INDEX crawl_tasks_parse_lease;
DROP INDEX crawl_tasks_batch;
DROP INDEX crawl_tasks_domain;
DROP TABLE attempts_before_months;
ALTER TABLE crawl_tasks DROP COLUMN parse_lease_until;
ALTER TABLE domains DROP COLUMN slot_tolerance_seconds;
-- Room for a new version of a row on its own page: the changes on the way of a task touch no indexed column.
ALTER TABLE crawl_tasks SET (fillfactor = 70);
