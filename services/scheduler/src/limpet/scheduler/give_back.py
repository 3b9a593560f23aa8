"""Permits come back: counters go down, breaker and adaptive limits hear how the site took it, waiting work is woken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from limpet.kit.pg import Conn
from limpet.scheduler.adapt import take_answers
from limpet.scheduler.breaker_board import CLOSED, OPEN, Answer, take
from limpet.scheduler.metrics import BREAKERS_OPENED
from limpet.scheduler.store.groups import lock_groups, open_groups, save_groups
from limpet.scheduler.store.paces import lock_paces, save_paces

# Domain, group, how many.
Released = tuple[int, str | None, int]


@dataclass
class News:
    """What one batch of facts means for one domain."""

    released: int = 0
    hold_seconds: float = 0.0
    hold_reason: str = ""
    # Tasks that are due again at once: group, priority.
    due: list[tuple[str | None, int]] = field(default_factory=list)
    # How the site took requests, by the group of each.
    answers: list[tuple[str | None, Answer]] = field(default_factory=list)


async def give_back(
    conn: Conn, released: Sequence[Released], news: dict[int, News], *, also: Iterable[int] = ()
) -> None:
    """Under the domains' locks, taken in one order; `also` are further domains that the caller needs locked."""
    news = defaultdict(News, news)
    for domain_id, _, count in released:
        news[domain_id].released += count
    wanted = sorted(news.keys() | set(also))
    if not wanted:
        return
    paces, now = await lock_paces(conn, wanted)
    if now is None:
        return
    changed = [paces[domain_id] for domain_id in news if domain_id in paces]
    for pace in changed:
        told = news[pace.domain_id]
        pace.in_flight -= told.released
        if told.hold_seconds > 0:
            pace.hold(now + timedelta(seconds=told.hold_seconds), told.hold_reason)
        before = pace.breaker_state
        for _, answer in told.answers:
            take(pace, answer, now=now)
        if pace.breaker_state == OPEN != before:
            BREAKERS_OPENED.inc()
        bad = sum(not answer.good for _, answer in told.answers)
        take_answers(pace, good=len(told.answers) - bad, blocked=bad, most=pace.max_concurrent_requests, now=now)
        # A probe that came back makes room for the next, or for all.
        if told.due or before != CLOSED:
            pace.wake(pace.first_slot(now))
    groups = await _give_back_groups(
        conn, released, news, {pace.domain_id: pace.max_per_group for pace in changed}, now
    )
    for domain_id in groups:
        paces[domain_id].wake(paces[domain_id].first_slot(now))
    await save_paces(conn, changed)
    await open_groups(conn, [(domain, group, level) for domain, told in news.items() for group, level in told.due])


async def _give_back_groups(
    conn: Conn, released: Sequence[Released], news: dict[int, News], most: dict[int, int], now: datetime
) -> set[int]:
    """Returns the domains that have more room in a group now."""
    back = {(domain_id, group): count for domain_id, group, count in released if group}
    heard: dict[tuple[int, str], list[Answer]] = defaultdict(list)
    for domain_id, told in news.items():
        for name, answer in told.answers:
            if name:
                heard[(domain_id, name)].append(answer)
    keys = sorted(back.keys() | heard.keys())
    if not keys:
        return set()
    groups = await lock_groups(conn, keys)
    for key, group in groups.items():
        bad = sum(not answer.good for answer in heard[key])
        group.in_flight -= back.get(key, 0)
        take_answers(group, good=len(heard[key]) - bad, blocked=bad, most=most[key[0]], now=now)
    await save_groups(conn, list(groups.values()))
    return {domain_id for domain_id, _ in groups}
