"""`limpet proxies` against a real broker's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from limpet.cli.main import app
from limpet.proxy_broker.vault import Vault
from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api
from tests.support.sealing import sealing_key

SECRET = "hunter2-Zq9"
Run = Callable[..., Awaitable[Result]]


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[BrokerApi]:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        yield api


@pytest.fixture
def run(api: BrokerApi, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command as a person would, and fails where its exit code is another."""
    return runner(api, monkeypatch)


def runner(api: BrokerApi, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LIMPET_URL", api.url)
    monkeypatch.setenv("LIMPET_API_KEY", "admin")

    async def run(*words: str, code: int = 0, typed: str | None = None) -> Result:
        done = await asyncio.to_thread(CliRunner().invoke, app, ["proxies", *words], input=typed)
        assert done.exit_code == code, (done.output, done.exception)
        assert SECRET not in done.output
        return done

    return run


async def test_b7_a_proxy_is_added_shown_decided_about_and_removed(
    api: BrokerApi, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LIMPET_PROXY_PASSWORD", SECRET)
    said = (await run("add", "p.test", "8080", "--username", "me", "--country", "de", "--monthly-cost", "5")).output
    proxy_id = said.split()[1].rstrip(":")
    assert "http://me:***@p.test:8080" in said
    monkeypatch.delenv("LIMPET_PROXY_PASSWORD")
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    await run(
        "add", "[::1]", "1", "--username", "me", "--password-file", str(tmp_path / "secret"), "--max-per-hour", "0"
    )
    await run("add", "open.test", "3")
    await run("add", "alone.test", "4", "--username", "me", "--no-password")
    rows = await api.pool.fetch("SELECT proxy_id, password_sealed FROM proxies ORDER BY proxy_id")
    opened = [api.vault.open(row[1], proxy_id=row[0]) if row[1] else None for row in rows]
    assert opened == [SECRET, SECRET, None, None]

    listed = (await run("list")).output
    assert "http://me:***@[::1]:1" in listed
    assert "4 proxies" in listed
    one = json.loads((await run("list", "--country", "de", "--json")).output)
    assert [proxy["host"] for proxy in one] == ["p.test"]
    assert json.loads((await run("show", proxy_id, "--json")).output)["monthly_cost"] == "5.00"
    assert "monthly_cost" in (await run("show", proxy_id)).output
    assert (await run("disable", proxy_id)).output == f"{proxy_id}: disabled\n"
    assert json.loads((await run("list", "--inactive", "--json")).output)[0]["proxy_id"] == int(proxy_id)
    assert (await run("enable", proxy_id)).output == f"{proxy_id}: active\n"
    await run("remove", proxy_id, code=1, typed="n\n")
    assert (await api.client.get(f"{PROXIES}/{proxy_id}")).status_code == 200
    await run("remove", proxy_id, "--yes")
    assert (await api.client.get(f"{PROXIES}/{proxy_id}")).status_code == 404
    assert "proxy_id" in (await run("show", proxy_id, code=2)).output


async def test_b7_a_username_without_a_password_is_not_added_unasked(run: Run) -> None:
    said = (await run("add", "p.test", "1", "--username", "me", code=2)).output
    assert "LIMPET_PROXY_PASSWORD" in said
    assert "host" in (await run("add", "a b", "1", code=2)).output


async def test_b7_a_file_is_imported_in_parts_and_lines_keep_their_numbers(
    api: BrokerApi, run: Run, tmp_path: Path
) -> None:
    lines = [f"10.0.{n >> 8}.{n & 255}:80:me:{SECRET}" for n in range(4500)]
    lines[4200] = f"nonsense {SECRET}"
    plain = tmp_path / "list.txt"
    plain.write_text("\n".join(lines) + "\n")
    dry = await run("import", str(plain), "--dry-run", code=1)
    assert "4499 would be added, 0 known, 1 refused" in dry.output
    assert "line 4201: line:" in dry.output
    assert await api.pool.fetchval("SELECT count(*) FROM proxies") == 0
    await run("import", str(plain), "--provider", "acme", "--domain", "shop.test", code=1)
    assert (
        await api.pool.fetchval("SELECT count(*) FROM pairs JOIN proxies USING (proxy_id) WHERE provider = 'acme'")
        == 4499
    )
    again = await run("import", "-", typed="10.0.0.1:80:me:x\n")
    assert "0 added, 1 known, 0 refused" in again.output


async def test_b7_csv_is_cut_between_records_and_every_part_has_the_header(
    api: BrokerApi, run: Run, tmp_path: Path
) -> None:
    records = [f'10.1.{n >> 8}.{n & 255},80,"Frankfurt\n(am Main)"' for n in range(1500)]
    table = tmp_path / "list.csv"
    table.write_text("host,port,city\n" + "\n".join([*records, "10.2.0.1,many,x"]) + "\n")
    said = (await run("import", str(table), code=1)).output
    # A line break is no text for a city; the place of the last record is that of the file.
    assert "0 added, 0 known, 1501 refused" in said
    table.write_text(
        "host,port,city\n" + "\n".join(f"10.1.{n >> 8}.{n & 255},80,Bonn" for n in range(4500)) + "\nx,many,\n"
    )
    said = (await run("import", str(table), code=1)).output
    assert "4500 added, 0 known, 1 refused" in said
    assert "line 4502: port: must be a number" in said
    assert "cannot be read" in (await run("import", str(tmp_path / "none"), code=2)).output


async def test_b8_costs_sizing_and_policy_are_shown(api: BrokerApi, run: Run) -> None:
    proxy_id = await api.add(provider="acme", cost_per_gb="3", max_requests_per_hour=20)
    await api.used("shop.test", proxy_id, good=100, size=10**9)
    await api.roll_up()
    [cost] = json.loads((await run("costs", "--by", "domain", "--json")).output)
    assert (cost["name"], cost["cost_per_thousand"]) == ("shop.test", "30.000000")
    assert "acme" in (await run("costs")).output
    assert "by" in (await run("costs", "--by", "colour", code=2)).output
    found = json.loads((await run("sizing", "shop.test", "--json")).output)
    assert (found["needed"], found["recommended"], found["advice"]) == (5, 6, "short")
    planned = await run("sizing", "shop.test", "--rate", "1000", "--max-per-proxy", "20", "--json")
    assert json.loads(planned.output)["recommended"] == 60

    await run("policy", "shop.test", "--strategy", "sticky", "--tiers", "direct,datacenter", "--block-cooldown", "0")
    await run("policy", "shop.test", "--sticky-by", "hour", "--pair-cooldown", "PT1H")
    policy = await api.ok("GET", f"{POOLS}/shop.test/policy")
    assert (policy["strategy"], policy["sticky_by"], policy["tiers"]) == ("sticky", "hour", ["direct", "datacenter"])
    assert (policy["block_cooldown"], policy["pair_cooldown"]) == ("PT0S", "PT1H")
    assert json.loads((await run("policy", "shop.test", "--json")).output) == policy
    assert "strategy" in (await run("policy", "shop.test", "--strategy", "best", code=2)).output
    await run("policy", "shop.test", "--reset")
    assert not (await api.ok("GET", f"{POOLS}/shop.test/policy"))["stored"]


async def test_b1_rotation_is_shown_until_nothing_is_left_under_old_keys(
    pool_of: PoolFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await pool_of("limpet.proxy_broker")
    old, new = sealing_key(), sealing_key()
    async with broker_api(pool, keys=old) as api:
        lines = "\n".join(f"10.0.0.1:{port}:me:{SECRET}" for port in range(1, 1202))
        await api.client.post(f"{PROXIES}/import", content=lines, headers={"Content-Type": "text/plain"})
    async with broker_api(pool, keys=f"{new},{old}") as api:
        said = (await runner(api, monkeypatch)("rotate-keys")).output
        assert "1201 sealed anew, 0 unreadable" in said
        assert Vault(new).newest in said
        assert "may be taken away" in said
    async with broker_api(pool) as api:
        assert "1201 unreadable" in (await runner(api, monkeypatch)("rotate-keys", code=1)).output
