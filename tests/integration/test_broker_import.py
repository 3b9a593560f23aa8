"""Lists of proxies over real HTTP: counted, checked, assigned, and never repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api, fields

PLAIN = """# from acme
10.0.0.1:8080
10.0.0.2:8080:me:hunter2
socks5://me:hunter2@[2001:DB8:0::7]:1080
10.0.0.1:8080
10.0.0.3:99999
nonsense hunter2
10.0.0.4:8080:me\x07:hunter2
"""


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[BrokerApi]:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        yield api


async def send(api: BrokerApi, text: str | bytes, *, kind: str = "text/plain", **query: Any) -> httpx.Response:
    return await api.client.post(f"{PROXIES}/import", content=text, headers={"Content-Type": kind}, params=query)


async def test_b7_a_plain_list_is_imported_and_a_repeat_adds_nothing(api: BrokerApi) -> None:
    answer = await send(api, PLAIN, provider="acme", kind_="x")
    assert fields(answer) == ["kind_"]
    dry = (await send(api, PLAIN, provider="acme", dry_run=True)).json()
    assert (dry["dry_run"], dry["added"], dry["known"], dry["refused"]) == (True, 3, 1, 3)
    assert await api.pool.fetchval("SELECT count(*) FROM proxies") == 0
    done = await send(api, PLAIN, provider="acme", country_code="de", monthly_cost="2.50")
    assert {**done.json(), "dry_run": True} == dry
    assert [(one["line"], one["field"]) for one in dry["refusals"]] == [(6, "port"), (7, "line"), (8, "username")]
    assert "hunter2" not in done.text
    assert "10.0.0" not in done.text
    listed = (await api.ok("GET", PROXIES, params={"provider": "acme"}))["items"]
    found = {(one["protocol"], one["host"], one["port"], one["username"], one["has_password"]) for one in listed}
    assert found == {
        ("http", "10.0.0.1", 8080, "", False),
        ("http", "10.0.0.2", 8080, "me", True),
        ("socks5", "2001:db8::7", 1080, "me", True),
    }
    assert {(one["country_code"], one["monthly_cost"]) for one in listed} == {("DE", "2.50")}
    again = (await send(api, PLAIN)).json()
    assert (again["added"], again["known"], again["refused"]) == (0, 4, 3)
    rows = await api.pool.fetch("SELECT proxy_id, password_sealed FROM proxies WHERE password_sealed IS NOT NULL")
    assert {api.vault.open(row["password_sealed"], proxy_id=row["proxy_id"]) for row in rows} == {"hunter2"}
    assert await api.pool.fetchval("SELECT count(*) FROM changes WHERE reason = 'added'") == 3


async def test_b7_a_list_can_be_put_into_a_pool_at_once_known_ones_too(api: BrokerApi) -> None:
    known = await api.add(host="10.0.0.1", port=8080)
    done = (await send(api, "10.0.0.1:8080\n10.0.0.2:8080\n", domain="Shop.test", priority=2)).json()
    assert (done["added"], done["known"], done["assigned"]) == (1, 1, 2)
    listed = (await api.ok("GET", f"{POOLS}/shop.test"))["items"]
    assert [(pair["assigned"], pair["priority"]) for pair in listed] == [(True, 2), (True, 2)]
    assert listed[0]["proxy_id"] == known


async def test_b7_csv_has_a_header_of_the_fields(api: BrokerApi) -> None:
    text = (
        "host,port,username,password,kind,monthly_cost,max_requests_per_hour\n"
        "10.0.0.1,1,me,hunter2,mobile,5,20\n"
        "10.0.0.2,2,,,paper,,\n"
        "10.0.0.3,3,,,,1.005,\n"
    )
    done = (await send(api, text, kind="text/csv; charset=utf-8")).json()
    assert (done["added"], done["refused"]) == (1, 2)
    assert [(one["line"], one["field"]) for one in done["refusals"]] == [(3, "kind"), (4, "monthly_cost")]
    [one] = (await api.ok("GET", PROXIES))["items"]
    assert (one["kind"], one["monthly_cost"], one["max_requests_per_hour"]) == ("mobile", "5.00", 20)
    without = await send(api, "10.0.0.1,1,me,hunter2\n", kind="text/csv")
    assert fields(without) == ["body"]
    assert "hunter2" not in without.text


async def test_b7_what_is_no_list_is_refused_as_a_whole(api: BrokerApi) -> None:
    assert fields(await send(api, "{}", kind="application/json"), 415) == ["Content-Type"]
    assert fields(await send(api, b"\xff\xfe"), 400) == ["body"]
    assert fields(await send(api, "\n" * 100_001)) == ["body"]
    assert fields(await send(api, "a:1", priority=11)) == ["priority"]
    assert await api.pool.fetchval("SELECT count(*) FROM proxies") == 0


async def test_b7_a_hundred_thousand_lines_go_in_and_a_thousand_refusals_are_told(api: BrokerApi) -> None:
    good = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}:8080:u{n}:p{n}" for n in range(98_000)]
    answer = await send(api, "\n".join(good + ["no"] * 2000), provider="acme")
    done = answer.json()
    assert answer.status_code == 200, answer.text
    assert (done["added"], done["known"], done["refused"], len(done["refusals"])) == (98_000, 0, 2000, 1000)
    assert done["refusals"][0]["line"] == 98_001
    assert await api.pool.fetchval("SELECT count(*) FROM proxies WHERE password_sealed IS NOT NULL") == 98_000
