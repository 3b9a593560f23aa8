"""The queue of domains: who stands in it, where, and who moves whom."""

from __future__ import annotations

import asyncio

from limpet.kit.migrate import scripts
from limpet.kit.pg import Pool
from tests.support.scheduling import grant, make_domain, make_settle, page, submit_pages
from tests.support.task_states import check_all_is_right


async def names(pool: Pool) -> list[str]:
    rows = await pool.fetch(
        "SELECT d.name FROM ready_domains q JOIN domains d USING (domain_id) ORDER BY q.place, d.name"
    )
    return [row["name"] for row in rows]


async def test_a_domain_stands_in_the_queue_while_something_is_due(pool: Pool) -> None:
    await make_domain(pool)
    assert await names(pool) == []
    await submit_pages(pool, 3)
    assert await names(pool) == ["shop.test"]
    assert len(await grant(pool, window=2)) == 2
    assert await names(pool) == ["shop.test"], "one is left"
    assert len(await grant(pool)) == 1
    assert await names(pool) == [], "the last one is gone, and nobody has to look again"
    await check_all_is_right(pool)


async def test_a_full_domain_leaves_and_comes_back_with_its_permits(pool: Pool) -> None:
    await make_domain(pool, max_concurrent_requests=2)
    await submit_pages(pool, 3)
    permits = await grant(pool)
    assert len(permits) == 2
    assert await names(pool) == []
    await make_settle(pool).settle([page(permits[0])])
    assert await names(pool) == ["shop.test"]
    assert len(await grant(pool)) == 1
    await check_all_is_right(pool)


async def test_groups_that_are_full_do_not_make_a_domain_look_empty(pool: Pool) -> None:
    await make_domain(pool, max_per_group=1)
    await submit_pages(pool, 3, group_key="books")
    (permit,) = await grant(pool)
    assert await grant(pool) == []
    await make_settle(pool).settle([page(permit)])
    assert len(await grant(pool)) == 1
    await check_all_is_right(pool)


async def test_whoever_changes_a_domain_by_hand_moves_it(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    await pool.execute("UPDATE domains SET is_active = false")
    assert await names(pool) == []
    assert await grant(pool) == []
    await pool.execute("UPDATE domains SET is_active = true, ready_at = now() - interval '1 h'")
    assert await names(pool) == ["shop.test"]
    await check_all_is_right(pool)
    assert len(await grant(pool)) == 1


async def test_schedulers_at_once_share_the_queue_and_leave_nobody_in_it(pool: Pool) -> None:
    for number in range(30):
        await make_domain(pool, f"shop-{number}.test")
        await submit_pages(pool, 2, host=f"shop-{number}.test")
    permits = [permit for some in await asyncio.gather(*(grant(pool, window=20) for _ in range(4))) for permit in some]
    permits += await grant(pool)
    assert len({permit.task_id for permit in permits}) == len(permits) == 60
    assert await names(pool) == []
    await check_all_is_right(pool)


async def test_domains_of_before_enter_the_queue_where_they_stood(pool: Pool) -> None:
    before = [sql for name, sql in scripts("limpet.scheduler").items() if name < "0010"]
    after = [sql for name, sql in scripts("limpet.scheduler").items() if name >= "0010"]
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("CREATE SCHEMA before; SET LOCAL search_path = before")
        for sql in before:
            await conn.execute(sql)
        await conn.execute(
            "INSERT INTO domains (name, base_url, user_agent, limit_now, in_flight, is_active, ready_at) VALUES"
            " ('ready', '', '', 5, 4, true, now()), ('full', '', '', 5, 5, true, now()), ('off', '', '', 5, 0, false, now()),"
            " ('asleep', '', '', 5, 0, true, 'infinity')"
        )
        await conn.execute("INSERT INTO domain_groups (domain_id, group_key, limit_now) VALUES (2, 'books', 5)")
        for sql in after:
            await conn.execute(sql)
        queued = await conn.fetch("SELECT d.name FROM ready_domains q JOIN domains d USING (domain_id, place)")
        grouped = await conn.fetch("SELECT name FROM domains WHERE grouped")
    assert ([row["name"] for row in queued], [row["name"] for row in grouped]) == (["ready"], ["full"])
