-- For lists of tasks. Neither column ever changes, so the way of a task writes nothing here.
CREATE INDEX crawl_tasks_of_group ON crawl_tasks (group_key, task_id) WHERE group_key IS NOT NULL;
CREATE INDEX crawl_tasks_of_robots ON crawl_tasks (task_id) WHERE kind = 'robots';

-- A transaction that waited for a task's lock is younger than it says: only the clock puts the changes of a task in order.
ALTER TABLE audit ALTER COLUMN at SET DEFAULT clock_timestamp();
