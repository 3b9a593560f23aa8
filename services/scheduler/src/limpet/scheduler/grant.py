"""One round of permits: which domains may be served, which of their tasks come next, and when each may start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from limpet.kit.pg import Conn
from limpet.scheduler.breaker_board import try_again
from limpet.scheduler.conclude import conclude
from limpet.scheduler.gates import closed_gate
from limpet.scheduler.known import known_page
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.politeness import TURN, Pace, room, share, take_slots
from limpet.scheduler.robots import RobotsBook, ask_for_robots, scheme_of
from limpet.scheduler.store.groups import close_groups, serve_groups
from limpet.scheduler.store.paces import lock_ready, save_served
from limpet.scheduler.store.permits import Candidate, Permit, count_permits, grant_permits, lock_candidates
from limpet.scheduler.store.queues import Due, Picked, pick_due
from limpet.scheduler.store.tasks import change_tasks, lock_tasks

# A task that somebody holds at this moment is looked at again then.
SOON = timedelta(milliseconds=100)
NONE = Picked([], [], set())


@dataclass(frozen=True)
class Terms:
    """The figures of a round."""

    lead: timedelta
    per_domain: int
    domains: int
    patience: timedelta
    timeout: timedelta
    margin: timedelta


@dataclass
class Habit:
    """How many tasks a domain gave lately: so many domains are locked at once as that makes likely to be needed."""

    turn: int = TURN

    def learn(self, *, granted: int, domains: int, with_more: int) -> None:
        given = max(1, granted // domains)
        self.turn = min(TURN, 2 * given if 2 * with_more > domains else given)


@dataclass
class Round:
    """What is decided about the due tasks of one round."""

    served: dict[int, list[tuple[Due, Candidate]]] = field(default_factory=lambda: defaultdict(list))
    forbidden: list[int] = field(default_factory=list)
    unread: dict[tuple[int, str], None] = field(default_factory=dict)
    # Domains with due tasks that could not be served, and when to look again: None means when somebody wakes them.
    later: dict[int, datetime | None] = field(default_factory=dict)


async def grant(conn: Conn, terms: Terms, *, window: int, book: RobotsBook, habit: Habit | None = None) -> list[Permit]:
    """Take due tasks of ready domains. Two schedulers never grant the same slot. Call inside a transaction."""
    free = window - await count_permits(conn)
    permits: list[Permit] = []
    looked_at, habit = 0, habit or Habit()
    while free > 0 and looked_at < terms.domains:
        # No more domains are locked than the permits may need: a domain costs as much as a task.
        wanted = min(terms.domains - looked_at, -(-free // habit.turn))
        found, domains, with_more = await _serve(conn, terms, free=free, domains=wanted, book=book)
        permits += found
        if domains:
            habit.learn(granted=len(found), domains=domains, with_more=with_more)
        if domains < wanted:
            break
        free, looked_at = free - len(found), looked_at + domains
    return permits


async def _serve(
    conn: Conn, terms: Terms, *, free: int, domains: int, book: RobotsBook
) -> tuple[list[Permit], int, int]:
    """The permits of the domains that wait longest, how many domains there were, and how many of them have more."""
    locked, now = await lock_ready(conn, lead=terms.lead, limit=domains)
    if now is None:
        return [], 0, 0
    paces = {pace.domain_id: pace for pace in locked}
    rooms = share({pace.domain_id: some for pace in locked if (some := _room(pace, now, terms))}, free)
    picked = await pick_due(conn, rooms, grouped=[paces[domain_id].grouped for domain_id in rooms]) if rooms else NONE
    candidates = await lock_candidates(conn, [due.task_id for due in picked.tasks]) if picked.tasks else {}
    await book.open(conn, [paces[domain_id] for domain_id in rooms])
    decided = _decide(picked.tasks, candidates, paces=paces, book=book, now=now, most=free)
    permits, served, leases = _order(decided, paces, terms=terms, now=now)
    if permits:
        await grant_permits(conn, served, slots=[permit.slot_at for permit in permits], leases=leases)
        await serve_groups(conn, [due for due, _ in served])
    await close_groups(conn, picked.empty)
    for domain_id, group in picked.empty:
        if group:
            # Other groups may have something, which were not looked at.
            decided.later.setdefault(domain_id, now)
    for domain_id in rooms:
        pace = paces[domain_id]
        if domain_id not in decided.served:
            pace.ready_at = decided.later.get(domain_id)
        elif domain_id in picked.more or domain_id in decided.later or pace.grouped:
            pace.ready_at = pace.first_slot(now)
        else:
            # Nothing is left: whoever brings something wakes it.
            pace.ready_at = None
    await save_served(conn, locked)
    await ask_for_robots(conn, [(paces[domain_id], scheme) for domain_id, scheme in decided.unread])
    await _cancel(conn, decided.forbidden)
    return permits, len(locked), len(picked.more)


def _room(pace: Pace, now: datetime, terms: Terms) -> int:
    """How many of the domain's tasks to look for; where none, it is left alone until something may have changed."""
    if gate := closed_gate(pace, now):
        pace.ready_at = gate.until
        return 0
    try_again(pace, now)
    some = room(pace, now=now, lead=terms.lead, most=terms.per_domain)
    if not some:
        first = pace.first_slot(now)
        # With no slot to wait for it is full: whoever gives a permit back wakes it.
        pace.ready_at = first if first > now + terms.lead else None
    return min(some, 1) if pace.obey_robots and pace.robots_unread else some


def _decide(
    picked: Sequence[Due],
    candidates: dict[int, Candidate],
    *,
    paces: dict[int, Pace],
    book: RobotsBook,
    now: datetime,
    most: int,
) -> Round:
    """Of the domains whose turn it is, the first task of each comes before the second of any."""
    decided = Round()
    count = 0
    for due in picked:
        pace, task = paces[due.domain_id], candidates.get(due.task_id)
        if task is None:
            decided.later[due.domain_id] = now + SOON
        elif count >= most:
            # It keeps its turn.
            decided.later[due.domain_id] = pace.ready_at
        elif task.kind == "robots":
            decided.served[due.domain_id].append((due, task))
            count += 1
        elif pace.obey_robots and pace.robots_unread:
            # Whoever reads its robots.txt wakes the domain.
            decided.later.setdefault(due.domain_id, None)
        else:
            word = book.word(pace, task.url)
            if word == "allowed":
                decided.served[due.domain_id].append((due, task))
                count += 1
            else:
                decided.later[due.domain_id] = now
                if word == "forbidden":
                    decided.forbidden.append(due.task_id)
                else:
                    decided.unread[(due.domain_id, scheme_of(task.url))] = None
    return decided


def _order(
    decided: Round, paces: dict[int, Pace], *, terms: Terms, now: datetime
) -> tuple[list[Permit], list[tuple[Due, Candidate]], list[datetime]]:
    """Each served task with its slot, by slot."""
    orders: list[tuple[Permit, tuple[Due, Candidate], datetime]] = []
    for domain_id, served in decided.served.items():
        pace = paces[domain_id]
        patience = timedelta(seconds=pace.tolerance) if pace.delay > 0 else terms.patience
        served.sort(key=lambda pair: (pair[0].priority, pair[0].due_at, pair[0].task_id))
        for (due, task), slot in zip(served, take_slots(pace, len(served), now=now), strict=True):
            give_up = slot + patience + terms.timeout
            permit = Permit(
                task_id=task.task_id,
                attempt=task.attempt + 1,
                url=task.url,
                domain=pace.name,
                priority=due.priority,
                user_agent=pace.user_agent,
                parser=task.parser or pace.parser_name,
                proxy_policy=pace.proxy_policy,
                min_body_bytes=pace.min_body_bytes,
                follow=task.follow,
                batch=task.batch,
                trace_id=task.trace_id,
                slot_at=slot,
                start_by=slot + patience,
                give_up_at=give_up,
                kind=task.kind,
                group_key=due.group_key,
                http2=pace.http2,
                headers=pace.headers,
                shadow=pace.validation == "shadow",
                ignored_signatures=pace.ignored_signatures,
                known=known_page(task, parser=task.parser or pace.parser_name),
            )
            orders.append((permit, (due, task), give_up + terms.margin))
    orders.sort(key=lambda order: order[0].slot_at)
    return [order[0] for order in orders], [order[1] for order in orders], [order[2] for order in orders]


async def _cancel(conn: Conn, task_ids: Sequence[int]) -> None:
    """Tasks that robots.txt forbids end here, with the reason."""
    if not task_ids:
        return
    tasks = list((await lock_tasks(conn, sorted(task_ids))).values())
    for task in tasks:
        task.become("disallowed", Status.CANCELLED)
        task.error = "robots_disallowed"
    await change_tasks(conn, [(Status.PENDING, task) for task in tasks], parse_lease=timedelta(), actor="scheduler")
    await conclude(conn, tasks)
