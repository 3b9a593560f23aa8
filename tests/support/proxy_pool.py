"""Real proxies as a domain's pool in a running platform, and what their own logs say together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.door import Door
from tests.support.forward_proxy import ForwardProxy
from tests.support.real_proxy import RealProxy


@dataclass(frozen=True)
class Use:
    """One line of one proxy's log."""

    at: float
    proxy: RealProxy
    path: str
    user: str


async def add_proxy(door: Door, proxy: RealProxy, *, password: str | None = None, **fields: object) -> int:
    """Tells the broker about it, with its own credentials unless another password is given."""
    body = {"protocol": "http" if isinstance(proxy, ForwardProxy) else "socks5", "host": "127.0.0.1", **fields}
    body |= {"port": proxy.port, "username": proxy.user}
    if given := proxy.password if password is None else password:
        body["password"] = given
    answer = await door.send("POST", "/api/admin/proxies", body=body)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["proxy_id"])


async def assign(door: Door, domain: str, proxy_ids: Sequence[int]) -> None:
    for proxy_id in proxy_ids:
        answer = await door.send("POST", f"/api/admin/domain-proxies/{domain}", body={"proxy_id": proxy_id})
        assert answer.status_code == 200, answer.text


async def pool(door: Door, domain: str, *proxies: RealProxy, **fields: Any) -> list[int]:
    """These proxies, alike in all fields, are the domain's own pool."""
    proxy_ids = [await add_proxy(door, proxy, **fields) for proxy in proxies]
    await assign(door, domain, proxy_ids)
    return proxy_ids


async def set_policy(door: Door, domain: str, **columns: object) -> None:
    """Written into the broker's table as it is: every column that is not named keeps its default."""
    names = ", ".join(columns)
    await door.rows(
        "proxy_broker",
        f"INSERT INTO policies (domain, {names}) "
        f"SELECT $1, {names} FROM jsonb_populate_record(NULL::policies, $2::text::jsonb)",
        domain,
        json.dumps(columns),
    )


def uses(*proxies: RealProxy, prefix: str = "/p/") -> list[Use]:
    """Pages that went through them, in the order of their logs' times. SOCKS logs know no paths."""
    every = [
        Use(passed.at, proxy, urlsplit(passed.target).path if "://" in passed.target else "", passed.user)
        for proxy in proxies
        for passed in proxy.log
    ]
    return sorted((use for use in every if use.path.startswith(prefix)), key=lambda use: use.at)
