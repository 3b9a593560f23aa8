"""Wants with all their fields, and what came of them, in few words."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import Any

from limpet.proxy_broker.lease import Grant, Want
from limpet.proxy_broker.refusal import Refusal
from tests.support.brokering import Brokering

_TASKS = count(1_000_000)


def want(domain: str = "shop.test", **values: Any) -> Want:
    given = {"country": "", "task_id": next(_TASKS), "attempt": 1, "ttl": timedelta(seconds=60), **values}
    return Want(domain=domain, **given)


async def ask(broker: Brokering, *wants: Want) -> list[Grant | Refusal]:
    return await broker.leasing.lease(wants, holder="test")


async def proxies_of(broker: Brokering, *wants: Want) -> list[int | str]:
    """The proxy of each want, 0 for the direct way, or why it got none."""
    return [one.proxy_id if isinstance(one, Grant) else one.reason for one in await ask(broker, *wants)]


async def refused(broker: Brokering, asked: Want) -> tuple[str, datetime]:
    [answer] = await ask(broker, asked)
    assert isinstance(answer, Refusal), answer
    return answer.reason, answer.retry_at
