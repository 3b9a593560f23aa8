"""Seek: a proxy under lock for every want that can have one, and a reason for each that cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Threshold
from limpet.proxy_broker.line import Key, Line
from limpet.proxy_broker.passwords import Passwords
from limpet.proxy_broker.refusal import Patience, Refusal, Survey, refuse
from limpet.proxy_broker.score import draw
from limpet.proxy_broker.store import leases, pools, surveys
from limpet.proxy_broker.strategy import Candidate, choose

EVERYTHING: Final = 1000  # as many proxies as a line may look at in one call


class Crowded(Exception):
    """Others hold proxies that look free: roll back, wait for them, try again. Not an error."""

    def __init__(self, proxy_ids: set[int]) -> None:
        super().__init__("others hold proxies that look free")
        self.proxy_ids = sorted(proxy_ids)


@dataclass(kw_only=True, slots=True)
class Found:
    """What one call has got so far."""

    # No candidate: the direct way.
    chosen: dict[Key, tuple[Line, Candidate | None]] = field(default_factory=dict)
    refused: dict[Key, Refusal] = field(default_factory=dict)
    given: Counter[int] = field(default_factory=Counter)
    locked: set[int] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class Seek:
    """Goes in rounds: a line that got too little asks for something else, waits, or is refused."""

    passwords: Passwords
    proxy: Threshold
    pair: Threshold
    patience: Patience
    chance: Random

    async def seek(self, conn: Conn, lines: Sequence[Line], *, now: datetime, final: bool) -> Found:
        """Lock and choose. Unless this try is final, it raises Crowded where waiting for others is worth it."""
        found = Found()
        waiting = await self._draw(conn, lines, now=now)
        _set_limits(waiting)
        while waiting:
            indirect = [line for line in waiting if not _go_direct(line, found)]
            if not indirect:
                break
            candidates = await self._take(conn, indirect)
            found.locked.update(candidate.proxy_id for candidate in candidates)
            short = _share_out(indirect, candidates, found)
            waiting = await self._move_on(conn, short, candidates, found, final=final) if short else []
        return found

    async def _draw(self, conn: Conn, lines: Sequence[Line], *, now: datetime) -> list[Line]:
        """Wants of weighted lines each draw a proxy and stand in line for that one."""
        weighted = [line for line in lines if line.weighted and not line.direct]
        if not weighted:
            return list(lines)
        records = await pools.look(
            conn, lines=weighted, proxy_failures=self.proxy.failures, pair_failures=self.pair.failures
        )
        split = [line for line in lines if not line.weighted or line.direct]
        number = len(lines)
        for line in weighted:
            mine = [record for record in records if record.group == line.group]
            drawn = draw(mine, count=len(line.keys), now=now, chance=self.chance)
            by_proxy: dict[int, list[Key]] = {}
            for key, proxy_id in zip(line.keys, [*drawn, *[0] * (len(line.keys) - len(drawn))], strict=True):
                by_proxy.setdefault(proxy_id, []).append(key)
            for proxy_id, keys in by_proxy.items():
                split.append(replace(line, group=number, kept=proxy_id, keys=keys))
                number += 1
        return split

    async def _take(self, conn: Conn, lines: Sequence[Line]) -> list[Candidate]:
        """Locked candidates whose password opens. Where one does not, its proxy is set aside and others are taken."""
        while True:
            found = await pools.take(
                conn, lines=lines, proxy_failures=self.proxy.failures, pair_failures=self.pair.failures
            )
            if not await self.passwords.set_aside(conn, found):
                break
        if not any(candidate.probe == "pair" for candidate in found):
            return found
        # Read after the locks: only then is it certain that no other broker probes the same pair.
        domains = {line.group: line.domain for line in lines}
        pairs = {(domains[c.group], c.proxy_id) for c in found if c.probe == "pair"}
        busy = await leases.probed(conn, pairs=sorted(pairs))
        return [c for c in found if c.probe != "pair" or (domains[c.group], c.proxy_id) not in busy]

    async def _move_on(
        self, conn: Conn, short: Sequence[Line], candidates: Sequence[Candidate], found: Found, *, final: bool
    ) -> list[Line]:
        seen = Counter(candidate.group for candidate in candidates)
        again = [line for line in short if _widens(line, seen[line.group])]
        stuck = [line for line in short if line not in again]
        if not stuck:
            return again
        count = sum(len(line.keys) for line in stuck)
        views = await surveys.survey(
            conn, lines=stuck, limit=count, proxy_failures=self.proxy.failures, given=found.given
        )
        free = {proxy_id for view in views.values() for proxy_id in view.free}
        if not final and free - found.locked:
            raise Crowded(free | found.locked)
        for line in stuck:
            if _steps_up(line, views[line.group]):
                again.append(line)
            else:
                found.refused |= dict.fromkeys(line.keys, refuse(views[line.group], self.patience))
        return again


def _set_limits(lines: Sequence[Line]) -> None:
    """A line looks at one proxy per want. New sessions of a domain look at as many together, or all would get the same."""
    new = Counter[str]()
    for line in lines:
        if line.loyal and not line.kept:
            new[line.domain] += len(line.keys)
    for line in lines:
        line.limit = new[line.domain] if line.loyal and not line.kept else len(line.keys)


def _go_direct(line: Line, found: Found) -> bool:
    if line.direct:
        found.chosen |= dict.fromkeys(line.keys, (line, None))
    return line.direct


def _share_out(lines: Sequence[Line], candidates: Sequence[Candidate], found: Found) -> list[Line]:
    """Give what there is; the lines that want more keep the wants that got nothing."""
    wants = [(line, key) for line in lines for key in line.keys]
    loyal = frozenset(line.group for line in lines if line.loyal)
    chosen = choose([line.group for line, _ in wants], candidates, given=found.given, loyal=loyal)
    missing: dict[int, list[Key]] = {}
    for (line, key), candidate in zip(wants, chosen, strict=True):
        if candidate is None:
            missing.setdefault(line.group, []).append(key)
        else:
            found.chosen[key] = (line, candidate)
            if line.loyal:
                line.kept = candidate.proxy_id
    short = [line for line in lines if line.group in missing]
    for line in short:
        line.keys = missing[line.group]
    return short


def _widens(line: Line, seen: int) -> bool:
    """There may be more than the line has looked at."""
    if line.kept and not line.loyal:  # whom it drew is taken: any other will do
        line.kept, line.limit = 0, len(line.keys)
        return True
    if not line.kept and seen >= line.limit and line.limit < EVERYTHING:
        line.limit = EVERYTHING
        return True
    return False


def _steps_up(line: Line, view: Survey) -> bool:
    """A session whose proxy is out of reach takes another, a tier without proxies gives way to the next, a try ends."""
    if line.loyal and line.kept and not view.ready:
        line.kept, line.limit = 0, len(line.keys)
        return True
    if len(line.tiers) > 1 and (line.probe or not view.enabled):
        line.tiers, line.probe, line.limit = line.tiers[1:], "", len(line.keys)
        return True
    return False
