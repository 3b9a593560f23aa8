"""A page that was fetched once is parsed again, over the scheduler and over a job, without another request."""

from __future__ import annotations

from typing import Any

from tests.support.door import Door
from tests.support.site import Plain
from tests.support.waiting import until


async def test_p8_restart_parsing_and_reparse_read_the_stored_page(door: Door) -> None:
    async with Plain(3) as site:
        await door.make_domain(site.host, crawl_delay_seconds=0)
        await door.submit(site.page_urls(), batch="again")
        await door.completed("again", 3, seconds=30)
        task_id = (await door.get("/api/admin/tasks?batch=again&limit=1"))["items"][0]["task_id"]
        before = (await door.get(f"/api/items?task_id={task_id}"))["items"]
        # As an older version of the parser would have left it.
        await door.rows("parser", "UPDATE pages SET parser_version = 'old' WHERE task_id = $1", task_id)
        await door.rows("parser", "UPDATE items SET data = '{}' WHERE task_id = $1", task_id)
        asked = await door.send("POST", f"/api/admin/tasks/{task_id}/restart-parsing")
        assert asked.status_code == 200, asked.text

        async def mended() -> bool:
            (item,) = (await door.get(f"/api/items?task_id={task_id}"))["items"]
            task = await door.get(f"/api/admin/tasks/{task_id}")
            return bool(item["data"] != {} and task["status"] == "completed")

        await until(mended, seconds=30)
        after = (await door.get(f"/api/items?task_id={task_id}"))["items"]
        assert [facts(item) for item in after] == [facts(item) for item in before]

        await door.rows("parser", "UPDATE pages SET parser_version = 'old' WHERE batch = 'again'")
        job = (await door.send("POST", "/api/admin/reparse", body={"batch": "again"})).json()

        async def completed() -> bool:
            return bool((await door.get(f"/api/admin/reparse/{job['job_id']}"))["state"] == "completed")

        await until(completed, seconds=30)
        job = await door.get(f"/api/admin/reparse/{job['job_id']}")
        assert (job["total"], job["written_count"], job["changed_count"]) == (3, 3, 0)
        assert len(site.log.of(prefix="/p/")) == 3, "every page was fetched once"


def facts(item: dict[str, Any]) -> dict[str, Any]:
    """Without what counts the seconds."""
    return {name: value for name, value in item.items() if name != "_metadata"}
