"""Nothing that a platform writes anywhere holds the password of a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count

import pytest

from limpet.cli.local.platform import Platform
from tests.e2e.conftest import QUICK
from tests.support.door import Door
from tests.support.forward_proxy import ForwardProxy
from tests.support.left_behind import Texts, forms, left_behind, listen_to_answers, places_of
from tests.support.proxy_pool import add_proxy, assign
from tests.support.real_proxy import Mood, RealProxy, serving
from tests.support.servers import free_port
from tests.support.site.plain import Plain
from tests.support.site.serving import Answer
from tests.support.socks_proxy import SocksProxy
from tests.support.waiting import until

PAGES = 30
# Disabled soon, so that the good ones bring the pages.
TALKATIVE = {"LIMPET_LOG_LEVEL": "DEBUG", "LIMPET_PROXY_FAILURES": "2", "LIMPET_PAIR_FAILURES": "2"}
# Stands where a password could slip in: in a page's address, which is logged, stored, sent and answered.
PLANTED = "pl4nted-Gnu-Krill"
_numbers = count(1)


def password() -> str:
    """Unlike anything else that is written, with a character that URLs escape and one that JSON does."""
    return f'v0rp4l-Walrus%Ziggurat"{next(_numbers)}-qx'


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with Platform(tmp_path_factory.mktemp("limpet"), fetchers=2, env={**QUICK, **TALKATIVE}) as running:
        yield running


@dataclass
class Cast:
    """Proxies that work, that do not take their credentials, that fail, and one that is not there."""

    good: list[RealProxy]
    picky: list[RealProxy]
    closing: list[RealProxy]
    away: RealProxy
    # What the broker is told for each: the user and the password.
    told: list[tuple[str, str]]


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with AsyncExitStack() as stack:

        async def make(kind: type[RealProxy], *, mood: Mood = Mood.WELL) -> RealProxy:
            proxy = kind(credentials=f"user{next(_numbers)}:{password()}", mood=mood)
            return await stack.enter_async_context(serving(proxy))

        yield Cast(
            good=[await make(ForwardProxy), await make(SocksProxy)],
            picky=[await make(ForwardProxy), await make(SocksProxy)],
            closing=[await make(ForwardProxy, mood=Mood.CLOSE), await make(SocksProxy, mood=Mood.FORBID)],
            away=ForwardProxy(credentials=f"user{next(_numbers)}:{password()}", port=free_port()),
            told=[],
        )


async def add_all(door: Door, cast: Cast) -> list[int]:
    proxy_ids = []
    for proxy in (*cast.good, *cast.closing, cast.away):
        cast.told.append((proxy.user, proxy.password))
        proxy_ids.append(await add_proxy(door, proxy))
    for proxy in cast.picky:
        cast.told += [(proxy.user, proxy.password), (proxy.user, wrong := password())]
        proxy_ids.append(await add_proxy(door, proxy, password=wrong))
    # One that is spoken to in TLS and does not understand.
    clear = cast.good[0]
    proxy_ids.append(await add_proxy(door, clear, protocol="https"))
    return proxy_ids


async def ask_wrongly(door: Door, cast: Cast) -> None:
    """Answers to mistakes repeat nothing of what was sent."""
    secret = password()
    cast.told.append(("ann", secret))
    good = {"protocol": "http", "host": "127.0.0.1", "port": 3128, "username": "ann", "password": secret}
    wrong: list[dict[str, object]] = [
        {**good, "port": 0},
        {**good, "passwort": secret},
        {**good, "password": [secret]},
        {**good, "password": secret * 100},
        {**good, "username": 7, "kind": secret},
        {**good, "host": f"ann:{secret}@127.0.0.1"},
    ]
    for body in wrong:
        answer = await door.send("POST", "/api/admin/proxies", body=body)
        assert 400 <= answer.status_code < 500, answer.text
    broken = await door.client.post(
        "/api/admin/proxies",
        content=f'{{"host": "127.0.0.1", "password": "{secret}',
        headers={"Content-Type": "application/json"},
    )
    assert 400 <= broken.status_code < 500
    for status in (201, 409):
        answer = await door.send("POST", "/api/admin/proxies", body={**good, "port": cast.away.port + 1})
        assert answer.status_code == status, answer.text


async def crawl(door: Door, site: Plain, proxy_ids: list[int], cast: Cast) -> None:
    await door.make_domain(
        site.host,
        crawl_delay_seconds=0,
        max_concurrent_requests=2,
        proxy_policy="required",
        breaker_failures=1000,
        breaker_rate=1.0,
    )
    await assign(door, site.host, proxy_ids)
    await door.submit([f"{url}?at={PLANTED}" for url in site.page_urls()], batch="secrets")

    async def tried() -> bool:
        every = all(proxy.log for proxy in cast.good) and all(proxy.refused for proxy in cast.picky)
        return every and all(proxy.connections for proxy in cast.closing)

    await until(tried, seconds=60, every=0.2)
    # Whoever is calling the broker now has something to log.
    door.platform.kill("proxy-broker")

    async def over() -> bool:
        counts = await door.counts("secrets")
        return counts["completed"] > 0 and counts["completed"] + counts["failed"] == PAGES

    await until(over, seconds=120, every=0.5)


async def look_around(door: Door, site: Plain, proxy_ids: list[int]) -> None:
    for path in ("/api/admin/proxies", f"/api/admin/domain-proxies/{site.host}", "/health", "/api/admin/tasks"):
        await door.get(path)
    for proxy_id in proxy_ids:
        await door.get(f"/api/admin/proxies/{proxy_id}")
        for action in ("disable", "enable"):
            assert (await door.send("POST", f"/api/admin/proxies/{proxy_id}/{action}")).status_code == 200


class WithQuery(Plain):
    """The pages whatever the query says."""

    def answer(self, path: str, *, origin: str) -> Answer:
        return super().answer(path.partition("?")[0], origin=origin)


async def test_b1_no_password_of_a_proxy_is_left_anywhere(door: Door, cast: Cast) -> None:
    answers = listen_to_answers(door)
    async with WithQuery(PAGES) as site:
        proxy_ids = await add_all(door, cast)
        await ask_wrongly(door, cast)
        await crawl(door, site, proxy_ids, cast)
        await look_around(door, site, proxy_ids)
    texts: Texts = {**answers, **await left_behind(door.platform)}
    # The search finds what is there, in every kind of place where words are kept.
    planted = places_of(forms("", PLANTED), texts)
    for kind in (
        "file logs/scheduler",
        "file logs/fetcher",
        "file nats/",
        "file postgres/",
        "dump limpet_scheduler",
        "dump limpet_fetcher",
        "event PAGES",
        "answer ",
    ):
        assert any(place.startswith(kind) for place in planted), f"{kind} is not searched: {planted}"
    assert len([name for name in texts if name.startswith("metrics ")]) == len(door.platform.runtime.pids) - 2
    users = places_of({cast.good[0].user.encode()}, texts)
    assert "dump limpet_proxy_broker" in users
    # And no password is.
    assert len(cast.told) >= 10
    for user, secret in cast.told:
        assert places_of(forms(user, secret), texts) == []
