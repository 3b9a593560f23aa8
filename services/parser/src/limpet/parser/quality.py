"""Are the fields of items still filled as they used to be? Counted as pages are parsed, judged by the hour, told when not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.quality_pb2 import QualityChanged
from limpet.kit.bus import Bus
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.parser import metrics
from limpet.parser.fill import Fill, Group, hour_of
from limpet.parser.fillrate import PAGES, Limits, Past, folded, judged
from limpet.parser.reading import Reading
from limpet.parser.store import quality as store
from limpet.parser.store.quality import FieldState, HourRow

log = structlog.get_logger()

EVERY: Final = 60.0
# Every parser has written what it counted of an hour by then.
GRACE: Final = timedelta(minutes=10)
GROUPS: Final = 200
OPEN_ROWS: Final = 20_000
TELL: Final = 200
# Domains by hour and parser that are counted before they are written.
MOST_GROUPS: Final = 5_000
HOUR: Final = timedelta(hours=1)


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Quality:
    pool: Pool
    bus: Bus
    every: float = EVERY
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], datetime] = utc_now
    _counted: dict[Group, Fill] = field(default_factory=dict)

    def note(self, pages: Iterable[tuple[PageFetched, Reading]]) -> None:
        """Count what was found. Costs no round trip; what was not written yet is lost with the process."""
        hour = hour_of(self.clock())
        for page, reading in pages:
            group = Group(hour, page.domain, page.parser)
            if group not in self._counted and len(self._counted) >= MOST_GROUPS:
                continue
            self._counted.setdefault(group, Fill()).add(reading.items)

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(self.every)
            try:
                await self.round()
            except (*LOST, *COLLIDED, Retryable) as error:
                log.warning("quality_interrupted", error=repr(error))

    async def round(self) -> None:
        await self.flush()
        await self._judge()
        await self._tell()
        async with self.pool.acquire() as conn:
            metrics.FIELDS_DROPPED.set(await store.count_dropped(conn))

    async def flush(self) -> None:
        """Add what was counted to its hours."""
        counted, self._counted = self._counted, {}
        rows = [
            HourRow(group.domain, group.parser, group.hour, *row)
            for group, fill in counted.items()
            for row in fill.rows()
        ]
        if not rows:
            return
        try:
            async with self.pool.acquire() as conn:
                await store.add_hours(conn, rows)
        except (*LOST, *COLLIDED):
            # Kept for the next round; what was counted meanwhile is of other pages.
            if not self._counted:
                self._counted = counted
            raise

    async def _judge(self) -> None:
        now = self.clock()
        while True:
            async with self.pool.acquire() as conn, conn.transaction():
                if not await store.take_turn(conn):
                    return
                over = await store.hours_over(conn, before=hour_of(now - GRACE), limit=GROUPS)
                await self._take_in(conn, over, over=True)
            if not over:
                break
        async with self.pool.acquire() as conn, conn.transaction():
            if await store.take_turn(conn):
                least = self.limits.least_seen
                going_on = await store.hours_open(conn, since=hour_of(now), least=least, limit=OPEN_ROWS)
                await self._take_in(conn, going_on, over=False)

    async def _take_in(self, conn: Conn, rows: Sequence[HourRow], *, over: bool) -> None:
        """An hour that is over becomes the past; one that goes on is only judged by it."""
        if not rows:
            return
        pairs = sorted({(row.domain, row.parser) for row in rows})
        states = {state[1:4]: state for state in await store.fields_of(conn, pairs)}
        changed: dict[int, FieldState] = {}
        for group, counts in _by_hour(rows).items():
            items = max((seen for name, (seen, _) in counts.items() if name != PAGES), default=0)
            for key in [key for key in states if key[:2] == group[1:]]:
                # A field that no item has any more was not counted: it is filled in none of them.
                seen, filled = counts.get(key[2], (items, 0))
                if seen:
                    state = _after(states[key], hour=group[0], seen=seen, filled=filled, over=over, limits=self.limits)
                    states[key] = changed[state.field_id] = state
        if changed:
            await store.save_fields(conn, sorted(changed.values()))

    async def _tell(self) -> None:
        """At least once: a change is marked as told when the stream has it."""
        async with self.pool.acquire() as conn:
            states = await store.untold_fields(conn, limit=TELL)
        if not states:
            return
        await self.bus.record(*(_event(state, now=self.clock()) for state in states))
        async with self.pool.acquire() as conn:
            await store.mark_told(conn, states)
        for state in states:
            log.warning(
                "quality_dropped" if state.dropped_at else "quality_recovered",
                domain=state.domain,
                parser=state.parser,
                field=state.field,
                rate=round(state.rate, 4),
                baseline=round(state.baseline, 4),
            )


def _by_hour(rows: Sequence[HourRow]) -> dict[tuple[datetime, str, str], dict[str, tuple[int, int]]]:
    """In the order of the hours."""
    found: dict[tuple[datetime, str, str], dict[str, tuple[int, int]]] = {}
    for row in sorted(rows, key=lambda row: row.hour):
        found.setdefault((row.hour, row.domain, row.parser), {})[row.field] = (row.seen, row.filled)
    return found


def _after(state: FieldState, *, hour: datetime, seen: int, filled: int, over: bool, limits: Limits) -> FieldState:
    past = Past(state.baseline, state.weight, state.dropped_at is not None)
    # An hour that goes on is judged before the one before it is over: what is older says nothing new.
    if hour >= state.judged_hour:
        past = judged(past, field=state.field, seen=seen, filled=filled, limits=limits)
        dropped_at = (state.dropped_at or hour) if past.dropped else None
        state = state._replace(rate=filled / seen, seen=seen, judged_hour=hour, dropped_at=dropped_at)
    if over:
        past = folded(past, seen=seen, filled=filled, hours=(hour - state.hour) / HOUR, limits=limits)
        state = state._replace(baseline=past.baseline, weight=past.weight, hour=hour)
    return state


def _event(state: FieldState, *, now: datetime) -> QualityChanged:
    event = QualityChanged(
        domain=state.domain,
        parser=state.parser,
        field=state.field,
        dropped=state.dropped_at is not None,
        rate=state.rate,
        baseline=state.baseline,
        seen=state.seen,
    )
    event.changed_time.FromDatetime(now)
    return event
