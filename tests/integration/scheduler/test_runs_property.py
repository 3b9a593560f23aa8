"""Whatever facts come, in whatever order and how often, and whoever dies: a run publishes all of its lists or nothing."""

from __future__ import annotations

import asyncio

from google.protobuf.message import Message
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from limpet.cli.local.postgres import Postgres
from limpet.contracts.events.v1.parse_pb2 import ParseFailed
from limpet.scheduler.runs.clear import clear
from limpet.scheduler.runs.commit import finish_run
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.store.runs import over_runs, uncleared
from tests.support.machine import Machine, run_machine
from tests.support.runs import HOST, blocked, fetched, make_tend, missing, read, unreachable
from tests.support.scheduling import come_due, grant, make_domain, make_reclaim, make_settle
from tests.support.task_states import check_all_is_right

EXAMPLES, STEPS = 15, 40
TABLES = (
    "crawl_tasks, due_tasks, waiting_tasks, permits, parse_leases, attempts, audit, link_parts, batches, runs, run_start_pages,"
    " run_pages, run_urls, domains, ready_domains, domain_groups"
)
FACTS = ("read", "read", "read", "page", "unreachable", "blocked", "unparsed")
# List pages of each start page. Some items are on two lists, and some pages hold nothing new.
LENGTHS = {1: 1, 2: 3, 3: 4}


def list_url(start: int, page: int) -> str:
    return f"http://{HOST}/list/{start}/{page}"


PAGES = {list_url(start, page): (start, page) for start, length in LENGTHS.items() for page in range(length)}


def items_on(start: int, page: int) -> list[str]:
    return [f"{start}-{page}", f"{start}-{max(0, page - 1)}", f"shared-{page}"]


def whole_list(start: int) -> set[str]:
    return {item for page in range(LENGTHS[start]) for item in items_on(start, page)}


def fact_of(kind: str, permit: Permit) -> Message:
    if permit.kind != "list":
        return read(permit, [])
    match kind:
        case "unreachable":
            return unreachable(permit, proxy_id=7)
        case "blocked":
            return blocked(permit, proxy_id=8)
    if permit.url not in PAGES:
        # Where a list might have gone on.
        return missing(permit)
    start, page = PAGES[permit.url]
    match kind:
        case "page":
            return fetched(permit)
        case "unparsed":
            return ParseFailed(page=fetched(permit), error="ValueError", retryable=True)
    after = list_url(start, page + 1) if page + 1 < LENGTHS[start] else None
    return read(permit, items_on(start, page), after=after)


class Runs(Machine):
    @initialize()
    def start(self) -> None:
        self.permits: list[Permit] = []
        self.run(self.pool.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE"))
        self.run(make_domain(self.pool))

    @rule(
        starts=st.sets(st.sampled_from(sorted(LENGTHS)), min_size=1),
        policy=st.sampled_from(["abort", "skip", "quorum"]),
        retries=st.sampled_from([0, 1, 5]),
        recrawl=st.booleans(),
    )
    def begin(self, *, starts: set[int], policy: str, retries: int, recrawl: bool) -> None:
        body = {
            "site": HOST, "start_pages": [list_url(start, 0) for start in sorted(starts)], "max_retries": retries,
            "on_failed_start_page": policy, "recrawl": recrawl,
        }  # fmt: skip
        assert self.ask("POST", "/api/admin/runs", body).status_code in (200, 201)

    @rule()
    def dispatch(self) -> None:
        self.permits += self.run(grant(self.pool))

    @rule(draws=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(FACTS)), min_size=1, max_size=6))
    def facts(self, *, draws: list[tuple[int, str]]) -> None:
        """Of any attempt there ever was: late, repeated, and in any order. Recent ones are likelier."""
        if self.permits:
            chosen = [(self.permits[-1 - min(at % 8, at % len(self.permits))], kind) for at, kind in draws]
            self.run(make_settle(self.pool).settle([fact_of(kind, permit) for permit, kind in chosen]))

    @rule()
    def leases_expire(self) -> None:
        self.run(self.pool.execute("UPDATE permits SET lease_until = now() - interval '1 s' WHERE task_id % 2 = 0"))
        self.run(self.pool.execute("UPDATE parse_leases SET lease_until = now() - interval '1 s'"))
        self.run(make_reclaim(self.pool, self.bus).expire_permits())
        self.run(make_reclaim(self.pool, self.bus).ask_parses())

    @rule()
    def time_passes(self) -> None:
        self.run(come_due(self.pool))
        self.run(self.pool.execute("UPDATE domains SET breaker_state = 'closed', held_until = '-infinity'"))
        self.run(self.pool.execute("UPDATE domains SET ready_at = least(ready_at, now())"))

    @rule()
    def tend(self) -> None:
        self.run(make_tend(self.pool, self.bus).round())

    @rule()
    def die_in_the_middle(self) -> None:
        """Of a commit, of which nothing is left, or after it, before anything else is done."""

        async def half() -> None:
            async with self.pool.acquire() as conn:
                for run_id in await over_runs(conn, limit=10):
                    transaction = conn.transaction()
                    await transaction.start()
                    await finish_run(conn, run_id)
                    await transaction.rollback()
                    async with conn.transaction():
                        await finish_run(conn, run_id)

        self.run(half())

    @rule()
    def clear_twice(self) -> None:
        async def twice() -> None:
            for run in await uncleared(self.pool, limit=10):  # type: ignore[arg-type]
                await asyncio.gather(clear(self.pool, run), clear(self.pool, run))

        self.run(twice())

    @rule()
    def abort(self) -> None:
        for run in self.run(self.pool.fetch("SELECT run_id FROM runs ORDER BY run_no DESC LIMIT 1")):
            assert self.ask("POST", f"/api/admin/runs/{run['run_id']}/abort").status_code in (200, 409)

    @invariant()
    def nothing_is_half(self) -> None:
        if hasattr(self, "permits"):
            self.run(self.judge())

    async def judge(self) -> None:
        pool = self.pool
        assert await pool.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NULL") <= 1
        published = {
            row["url"].removeprefix(f"http://{HOST}/p/")
            for row in await pool.fetch("SELECT url FROM crawl_tasks WHERE kind = 'page'")
        }
        wanted: set[str] = set()
        for page in await pool.fetch(
            "SELECT p.*, r.state AS run_state FROM run_start_pages p JOIN runs r USING (run_id)"
        ):
            start = int(page["url"].rsplit("/", 2)[1])
            if page["state"] == "completed":
                assert page["collected"] == len(whole_list(start)), "a completed list is a whole one"
                assert page["pages"] >= LENGTHS[start]
                if page["run_state"] == "committed":
                    wanted |= whole_list(start)
            assert (page["failure_count"] > 0) == (page["failures"] != "[]")
        assert published == wanted, "all of the committed runs, nothing of the others"
        counts = await pool.fetch(
            """SELECT p.run_id, p.start_no, p.open_pages, count(t.task_id) FILTER (WHERE t.resting IS NULL) AS open
                 FROM run_start_pages p JOIN runs r USING (run_id)
                 LEFT JOIN run_pages l USING (run_id, start_no) LEFT JOIN crawl_tasks t USING (task_id)
                WHERE r.ended_at IS NULL GROUP BY p.run_id, p.start_no"""
        )
        assert all(row["open"] == row["open_pages"] for row in counts), counts
        uncounted = await pool.fetch(
            """SELECT p.run_id FROM run_start_pages p JOIN runs r USING (run_id) WHERE r.cleared_at IS NULL
                  AND r.state <> 'committed'
                  AND p.collected <> (SELECT count(*) FROM run_urls u WHERE u.run_id = p.run_id AND u.start_no = p.start_no)"""
        )
        assert uncounted == []
        stray = """SELECT r.run_id FROM runs r JOIN run_pages USING (run_id) JOIN crawl_tasks t USING (task_id)
                    WHERE r.cleared_at IS NOT NULL AND t.resting IS NULL"""
        assert await pool.fetch(stray) == [], "an ended run asks for nothing"
        if not await pool.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NOT NULL AND cleared_at IS NULL"):
            await check_all_is_right(pool)

    def teardown(self) -> None:
        """Left to itself, every run comes to its end."""
        if not hasattr(self, "permits"):
            return
        for _ in range(80):
            self.run(self.pool.execute("UPDATE permits SET lease_until = now() - interval '1 s'"))
            self.leases_expire()
            self.time_passes()
            permits = self.run(grant(self.pool))
            self.run(make_settle(self.pool).settle([fact_of("read", permit) for permit in permits]))
            self.run(make_settle(self.pool).settle([fact_of("read", permit) for permit in self.permits]))
            self.tend()
            if not self.run(self.pool.fetchval("SELECT count(*) FROM runs WHERE cleared_at IS NULL")):
                break
        assert self.run(self.pool.fetch("SELECT run_id, state FROM runs WHERE cleared_at IS NULL")) == []
        self.run(self.judge())


def test_s19_s20_no_order_of_facts_and_deaths_makes_a_half_run(postgres: Postgres, nats_url: str) -> None:
    run_machine(Runs, postgres, nats_url, examples=EXAMPLES, steps=STEPS)
