"""`limpet run` as a person types it, on the running platform."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.support.door import Door
from tests.support.site.lists import Lists

LIMPET = str(Path(sys.executable).with_name("limpet"))


async def limpet(door: Door, *words: str) -> tuple[int | None, str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    process = await asyncio.create_subprocess_exec(
        LIMPET, "run", *words, "--data", str(door.platform.data), env=env, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 90)
    return process.returncode, out.decode(), err.decode()


async def test_s19_a_person_runs_a_site_watches_it_and_looks_at_it(door: Door) -> None:
    async with Lists(lists=3, pages=3, per_page=3) as site:
        await door.make_domain(site.host, crawl_delay_seconds=0)
        code, out, err = await limpet(door, "start", *site.start_urls(1))
        assert code == 0, out + err
        wanted = site.item_urls(1)
        assert f"{len(wanted)} new tasks" in err
        _, listed, _ = await limpet(door, "list", "--site", site.host, "--json")
        (run,) = json.loads(listed)
        assert (run["state"], run["urls"], run["list_pages"]) == ("committed", len(wanted), 9)
        _, shown, _ = await limpet(door, "show", run["run_id"], "--json")
        assert [page["completed"] for page in json.loads(shown)["pages"]] == [True] * 3
        rows = await door.rows(
            "scheduler", "SELECT url FROM crawl_tasks WHERE kind = 'page' AND starts_with(url, $1)", site.url
        )
        assert {row["url"] for row in rows} == wanted
        code, out, err = await limpet(door, "watch", run["run_id"])
        assert code == 0, "it has ended already"


async def test_s20_a_run_that_is_aborted_says_why_and_fails_the_command(door: Door) -> None:
    async with Lists(lists=3) as site:
        site.gone.add((1, 1))
        await door.make_domain(site.host, crawl_delay_seconds=0)
        code, out, err = await limpet(door, "start", *site.start_urls(1))
        assert code == 1, out + err
        assert "aborted (missing)" in err
        assert site.start_urls(1)[1] in err
        await door.send("PATCH", f"/api/admin/domains/{site.host}", body={"is_active": False})
        code, run_id, _ = await limpet(door, "start", *site.start_urls(2), "--no-watch")
        assert code == 0
        code, out, _ = await limpet(door, "abort", run_id.strip())
        assert (code, "aborted" in out) == (0, True)
        code, _, err = await limpet(door, "start", site.url, "http://elsewhere.test/")
        assert code == 2
        assert "2 sites" in err
