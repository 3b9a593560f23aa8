"""How orders ended, by the scheduler's own history."""

from __future__ import annotations

from collections import Counter

from tests.support.door import Door


async def fetch_outcomes(door: Door, batch: str) -> Counter[str]:
    rows = await door.rows(
        "scheduler",
        """SELECT a.outcome FROM attempts a JOIN crawl_tasks t USING (task_id) JOIN batches b USING (batch_id)
            WHERE b.name = $1 AND a.phase = 'fetch'""",
        batch,
    )
    return Counter(row["outcome"] for row in rows)


async def nothing_is_out(door: Door) -> None:
    assert await door.rows("scheduler", "SELECT FROM permits") == []
    (counters,) = await door.rows("scheduler", "SELECT sum(in_flight) AS open FROM domains")
    assert counters["open"] == 0
