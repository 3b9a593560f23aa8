"""`limpet explain` as a person types it, on the running platform."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support.door import Door
from tests.support.site import Plain
from tests.support.waiting import until

LIMPET = str(Path(sys.executable).with_name("limpet"))


async def explain(door: Door, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    process = await asyncio.create_subprocess_exec(
        LIMPET, "explain", *words, "--data", str(door.platform.data), env=env, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said
    return said.decode()


async def test_s24_a_person_is_told_why_and_it_is_crawled_when_that_is_mended(door: Door) -> None:
    async with Plain(1) as site:
        await door.make_domain(site.host, crawl_delay_seconds=0, is_active=False)
        (url,) = site.page_urls()
        answer = await door.send("POST", "/api/admin/tasks", body={"url": url, "is_recurring": False})
        task_id = answer.json()["task_id"]
        said = await explain(door, url + "#top")
        assert f"the domain {site.host} is switched off" in said
        assert "wakes it: a person" in said
        await door.send("PATCH", f"/api/admin/domains/{site.host}", body={"is_active": True})

        async def completed() -> Any:
            found = await door.get(f"/api/admin/tasks/{task_id}/explain")
            return found if found["gate"] == "completed" else None

        await until(completed, seconds=30)
        told = json.loads(await explain(door, str(task_id), "--json"))
        assert (told["status"], told["wakes"], told["details"]["attempt"]) == ("completed", "person", 1)
