"""Passwords: under which key they lie, how they move to a new one, and that nothing ever says one."""

from __future__ import annotations

import io
import logging
from typing import Any

import httpx
import pytest
import structlog

from limpet.kit.pg import Pool
from limpet.proxy_broker.vault import Vault
from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api
from tests.support.sealing import sealing_key

SECRET = "hunter2-Zq9"


async def add_many(api: BrokerApi, count: int) -> None:
    lines = "\n".join(f"10.0.0.1:{port}:me:{SECRET}" for port in range(1, count + 1))
    answer = await api.client.post(f"{PROXIES}/import", content=lines, headers={"Content-Type": "text/plain"})
    assert answer.json()["added"] == count


async def rotate(api: BrokerApi) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Every batch's answer, and how many passwords lie under which key in the end."""
    answers: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        answers.append(await api.ok("POST", f"{PROXIES}/rotate-keys", params={"limit": 10, "after": after}))
        after = answers[-1]["next"]
    return answers, {key["key_id"]: key["passwords"] for key in answers[-1]["keys"]}


async def passwords(pool: Pool, vault: Vault) -> set[str]:
    rows = await pool.fetch("SELECT proxy_id, password_sealed FROM proxies WHERE password_sealed IS NOT NULL")
    return {vault.open(row["password_sealed"], proxy_id=row["proxy_id"]) for row in rows}


async def test_b1_rotation_moves_every_password_to_the_newest_key_and_says_what_is_left(pool_of: PoolFactory) -> None:
    pool = await pool_of("limpet.proxy_broker")
    old, new = sealing_key(), sealing_key()
    async with broker_api(pool, keys=old) as api:
        await add_many(api, 25)
        await api.add(host="no.password.test")
        assert (await rotate(api))[1] == {Vault(old).newest: 25}
    async with broker_api(pool, keys=f"{new},{old}") as api:
        answers, by_key = await rotate(api)
        assert [answer["resealed"] for answer in answers] == [10, 10, 5]
        assert answers[0]["keys"] == [
            {"key_id": Vault(new).newest, "passwords": 10, "newest": True, "present": True},
            {"key_id": Vault(old).newest, "passwords": 15, "newest": False, "present": True},
        ]
        assert by_key == {Vault(new).newest: 25, Vault(old).newest: 0}
        assert (await rotate(api))[0][0]["resealed"] == 0
    assert await passwords(pool, Vault(new)) == {SECRET}


async def test_b1_a_password_whose_key_is_gone_is_named_and_stops_nothing(pool_of: PoolFactory) -> None:
    pool = await pool_of("limpet.proxy_broker")
    lost, old, new = sealing_key(), sealing_key(), sealing_key()
    async with broker_api(pool, keys=lost) as api:
        await add_many(api, 12)
    async with broker_api(pool, keys=old) as api:
        fine = await api.add(password=SECRET)
    async with broker_api(pool, keys=f"{new},{old}") as api:
        answers, by_key = await rotate(api)
    assert sum(len(answer["unreadable"]) for answer in answers) == 12
    assert sum(answer["resealed"] for answer in answers) == 1
    assert by_key == {Vault(new).newest: 1, Vault(old).newest: 0, Vault(lost).newest: 12}
    assert [key["present"] for key in answers[-1]["keys"]] == [True, True, False]
    sealed = await pool.fetchval("SELECT password_sealed FROM proxies WHERE proxy_id = $1", fine)
    assert Vault(new).open(sealed, proxy_id=fine) == SECRET


async def test_b1_no_answer_no_error_no_log_line_and_no_row_holds_a_password(
    pool_of: PoolFactory, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = await pool_of("limpet.proxy_broker")
    caplog.set_level(logging.DEBUG)
    said = io.StringIO()
    with structlog.testing.capture_logs() as lines:
        async with broker_api(pool) as api:
            for answer in await say_it_everywhere(api):
                said.write(answer.text + str(answer.headers))
    text = said.getvalue() + repr(lines) + caplog.text + "".join(capsys.readouterr())
    assert "proxies_imported" in text
    assert SECRET not in text
    for table in await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        rows = await pool.fetch(f'SELECT to_jsonb(t)::text AS row FROM "{table["tablename"]}" AS t')
        assert not [row["row"] for row in rows if SECRET in row["row"]], table["tablename"]


async def say_it_everywhere(api: BrokerApi) -> list[httpx.Response]:
    """Good and bad requests that hold the password in every place where somebody might put it."""
    good = {"host": "10.0.0.1", "port": 1, "username": "me", "password": SECRET}
    bodies: list[Any] = [
        good,
        good,
        {**good, "port": SECRET},
        {**good, "colour": "red"},
        {**good, "password": [SECRET]},
        {**good, "password": SECRET * 200},
        [SECRET],
        SECRET,
    ]
    answers = [await api.client.post(PROXIES, json=body) for body in bodies]
    assert [answer.status_code for answer in answers] == [201, 409, 422, 422, 422, 422, 422, 422]
    path = answers[0].headers["location"]
    answers.append(await api.client.post(PROXIES, content=f'{{"password": "{SECRET}"'))
    answers += [
        await api.client.patch(path, json=body) for body in ({"password": SECRET}, {"password": SECRET, "port": 0})
    ]
    lists = {
        "text/plain": f"10.0.0.2:1:me:{SECRET}\n10.0.0.2:99999:me:{SECRET}\n{SECRET}\nftp://me:{SECRET}@h:1",
        "text/csv": f"host,port,password,kind\nh,1,{SECRET},\nh,1,{SECRET},{SECRET}\nh,{SECRET},,\nh,2\n",
        "text/csv; header=none": f"h,1,me,{SECRET}\n",
        "text/html": SECRET,
    }
    for kind, text in lists.items():
        for dry in ("true", "false"):
            headers = {"Content-Type": kind}
            answers.append(
                await api.client.post(f"{PROXIES}/import", content=text, headers=headers, params={"dry_run": dry})
            )
    answers += [await api.client.get(page) for page in (PROXIES, path, "/api/admin/proxy-alerts", f"{POOLS}/a.test")]
    answers += [await api.client.post(f"{path}/{end}") for end in ("disable", "enable")]
    answers.append(await api.client.post(f"{PROXIES}/rotate-keys"))
    answers.append(await api.client.delete(path))
    return answers
