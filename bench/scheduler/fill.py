"""Rows by the million: domains, pending tasks and their places in the queue, made inside the database."""

from __future__ import annotations

import asyncio

from limpet.kit.pg import Conn, Pool

DOMAINS = """
    INSERT INTO domains (name, base_url, user_agent, crawl_delay_seconds, max_concurrent_requests, limit_now, obey_robots, ready_at)
    SELECT name, 'https://' || name || '/', 'limpet-bench/1.0', 0, $3, $3, false, 'infinity'
      FROM generate_series($1::bigint, $2::bigint) AS n, format('shop-%s.example', n) AS name
"""
# Tasks go round the domains as a broad crawl finds them. One in ten is more urgent than the rest.
TASKS = """
    INSERT INTO crawl_tasks (domain_id, url, url_hash, priority, scheduled_at, trace_id, created_by)
    SELECT domain_id, url, sha256(url::bytea), CASE WHEN n / $3 % 10 = 0 THEN 3 ELSE 5 END,
           now() - interval '1 day' + n * interval '1 ms', md5(url)::uuid, 'bench'
      FROM (SELECT n, $4 + n % $3 AS domain_id,
                   'https://shop-' || $4 + n % $3 || '.example/catalogue/department-' || n % 97 || '/product-' || n || '.html' AS url
              FROM generate_series($1::bigint, $2::bigint) AS n
            OFFSET 0) AS page
"""
QUEUE = """
    INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
    SELECT domain_id, '', priority, scheduled_at, task_id FROM crawl_tasks WHERE task_id > $1
"""
# Those that have tasks, in no order of theirs. One that is awake keeps its place, as it does in the service.
WAKE = """
    WITH woken AS (
        UPDATE domains d SET ready_at = moment, place = moment
          FROM (SELECT domain_id, now() - interval '1 ms' * (domain_id * 7919 % 100003) AS moment FROM domains
                 WHERE domain_id >= $1::bigint AND domain_id < $1 + $2::bigint AND ready_at = 'infinity') AS due
         WHERE d.domain_id = due.domain_id
     RETURNING d.place, d.domain_id
    )
    INSERT INTO ready_domains SELECT place, domain_id FROM woken
"""
# Below this, indexes are kept up to date row by row; above, it is faster to make them again.
MANY = 100_000


async def add_domains(pool: Pool, count: int, *, at_once: int) -> int:
    """Returns the id of the first one."""
    async with pool.acquire() as conn:
        last = await conn.fetchval("SELECT coalesce(max(domain_id), 0) FROM domains")
        await conn.execute(DOMAINS, last + 1, last + count, at_once)
    return int(last) + 1


async def add_tasks(pool: Pool, count: int, *, first_domain: int, domains: int) -> None:
    """Due tasks, taken in turn by the domains from the first one on."""
    last = await pool.fetchval("SELECT coalesce(max(task_id), 0) FROM crawl_tasks")
    async with pool.acquire() as conn:
        indexes = await _drop_indexes(conn) if count > MANY else []
    half = last + count // 2
    await asyncio.gather(
        *(_insert(pool, TASKS, *span, domains, first_domain) for span in ((last, half - 1), (half, last + count - 1)))
    )
    await _insert(pool, QUEUE, last)
    await _insert(pool, WAKE, first_domain, min(count, domains))
    async with pool.acquire() as conn:
        await conn.execute("SET maintenance_work_mem = '256MB'")
        for statement in indexes:
            await conn.execute(statement, timeout=600)
        for table in ("domains", "ready_domains", "crawl_tasks", "due_tasks"):
            await conn.execute(f"VACUUM (ANALYZE) {table}", timeout=600)
        await conn.execute("RESET maintenance_work_mem")
        await conn.execute("CHECKPOINT", timeout=600)


async def _insert(pool: Pool, statement: str, *args: int) -> None:
    async with pool.acquire() as conn, conn.transaction():
        # Rows that are right by construction need no check of each reference.
        await conn.execute("SET LOCAL session_replication_role = replica")
        await conn.execute(statement, *args, timeout=600)


async def _drop_indexes(conn: Conn) -> list[str]:
    """All but the one that references rely on; returns what makes them again."""
    indexes = await conn.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'crawl_tasks' AND indexname NOT IN ($1, $2)",
        "crawl_tasks_pkey",
        "crawl_tasks_url_hash_key",
    )
    keys = await conn.fetch(
        "SELECT conrelid::regclass::text AS owner, conname, pg_get_constraintdef(oid) AS def FROM pg_constraint"
        " WHERE conname IN ('crawl_tasks_url_hash_key', 'due_tasks_pkey')"
    )
    for row in indexes:
        await conn.execute(f'DROP INDEX "{row["indexname"]}"')
    for row in keys:
        await conn.execute(f"ALTER TABLE {row['owner']} DROP CONSTRAINT {row['conname']}")
    again = [f"ALTER TABLE {row['owner']} ADD CONSTRAINT {row['conname']} {row['def']}" for row in keys]
    return [*again, *(row["indexdef"] for row in indexes)]
