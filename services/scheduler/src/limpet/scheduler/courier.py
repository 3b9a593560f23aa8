"""One POST of a webhook, never to a private address. Whatever comes of it is a value."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from limpet.kit.guard import AddressForbidden, Guard, GuardedResolver
from limpet.scheduler.redelivery import Answer

DEADLINE_SECONDS: Final = 10.0
MAX_ERROR: Final = 300
HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "Limpet-Webhook/0.1"}
# aiohttp rounds longer timeouts up to whole seconds.
_NEVER_ROUND: Final = 1e9


@dataclass(frozen=True)
class Courier:
    session: aiohttp.ClientSession
    guard: Guard
    seconds: float

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Only the status counts: redirects are not followed, the answer's body is not read."""
        try:
            target = URL(url, encoded=True)
            # No resolver is asked for a host that is an address.
            self.guard.check_literal(target.raw_host or "", target.port or 0)
            async with self.session.post(target, data=body, headers=headers, allow_redirects=False) as response:
                redirect = 300 <= response.status < 400
                return Answer(response.status, "redirects are not followed" if redirect else None)
        except AddressForbidden as error:
            return Answer(error=plain(str(error)), forbidden=True)
        except TimeoutError:
            return Answer(error=f"no answer within {self.seconds:g} s", late=True)
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            return Answer(error=plain(f"{type(error).__name__}: {error}"))


def plain(text: str) -> str:
    """Foreign text cut and freed of what PostgreSQL does not take."""
    return text[:MAX_ERROR].encode("utf-8", "replace").decode().replace("\x00", "")


@asynccontextmanager
async def open_courier(guard: Guard, *, seconds: float = DEADLINE_SECONDS) -> AsyncIterator[Courier]:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, resolver=GuardedResolver(guard), ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=HEADERS,
        timeout=aiohttp.ClientTimeout(total=seconds, ceil_threshold=_NEVER_ROUND),
        trust_env=False,
    ) as session:
        yield Courier(session, guard, seconds)
