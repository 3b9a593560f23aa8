"""URLs become tasks: normalised, of a known domain, each one once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from limpet.kit.pg import Conn, Pool
from limpet.scheduler.again import try_again
from limpet.scheduler.canonical import BadUrl, Canonical, canonical
from limpet.scheduler.lifecycle import TERMINAL, Status
from limpet.scheduler.metrics import TASKS_ADDED
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.sitemaps import ask_for_sitemaps
from limpet.scheduler.store.batches import count_pages, get_batch, lock_batches
from limpet.scheduler.store.children import add_ends, mark_parents
from limpet.scheduler.store.domains import get_domains, lock_domains, wake_domains
from limpet.scheduler.store.tasks import add_tasks, find_tasks, lock_ended, lock_tasks, recrawl_tasks, set_depths

# Place in the list, what the URL is, and what was asked for it.
Wanted: TypeAlias = tuple[int, Canonical, Mapping[str, Any]]


@dataclass
class Admitted:
    """What became of a list of tasks."""

    created: dict[bytes, int] = field(default_factory=dict)
    recrawled: dict[bytes, int] = field(default_factory=dict)
    # What is due at once: domain, group, priority.
    due: list[tuple[int, str | None, int]] = field(default_factory=list)
    full: bool = False


@dataclass(frozen=True)
class Refusal:
    index: int
    url: str
    field: str
    message: str


@dataclass
class Submitted:
    created: dict[bytes, int]
    known: dict[bytes, int]
    refused: list[Refusal]


class UnknownBatch(LookupError):
    """No batch has this name."""


async def admit(conn: Conn, tasks: Sequence[NewTask], *, batch: Mapping[str, Any] | None, created_by: str) -> Admitted:
    """Add unknown URLs, and start known ones anew when the batch asks for it. Domains and batch are locked by the caller."""
    result = Admitted()
    tasks = list({task.digest: task for task in tasks}.values())
    if batch is not None and batch["max_bytes"] is not None and batch["bytes"] >= batch["max_bytes"]:
        return Admitted(full=True)
    if batch is not None and batch["max_pages"] is not None:
        room = max(0, batch["max_pages"] - batch["pages"])
        known = await find_tasks(conn, [task.digest for task in tasks])
        fresh = [task for task in tasks if task.digest not in known]
        result.full = len(fresh) >= room
        tasks = fresh[:room] + ([task for task in tasks if task.digest in known] if batch["recrawl"] else [])
    rows = (
        await add_tasks(conn, tasks, batch_id=batch["batch_id"] if batch else None, created_by=created_by)
        if tasks
        else []
    )
    result.created = {row["url_hash"]: row["task_id"] for row in rows}
    if batch is not None and batch["recrawl"] and len(rows) < len(tasks):
        rest = [task.digest for task in tasks if task.digest not in result.created]
        room = len(rest) if batch["max_pages"] is None else max(0, batch["max_pages"] - batch["pages"] - len(rows))
        ended = await lock_ended(conn, rest, batch_id=batch["batch_id"], limit=room)
        again = await recrawl_tasks(
            conn,
            [(task_id, None, None) for task_id in ended],
            event="recrawled",
            actor=created_by,
            batch_id=batch["batch_id"],
        )
        result.recrawled = {row["url_hash"]: row["task_id"] for row in again}
        depths = {task.digest: task.depth for task in tasks}
        await set_depths(conn, {row["task_id"]: depths[row["url_hash"]] for row in again})
        rows = [*rows, *again]
    result.due = [(row["domain_id"], row["group_key"], row["priority"]) for row in rows if row["is_due"]]
    if batch is not None and rows:
        await count_pages(conn, batch["batch_id"], len(rows))
    return result


async def submit(
    pool: Pool, wishes: Sequence[Mapping[str, Any]], *, batch: str | None, created_by: str = "api"
) -> Submitted:
    """All of it in one transaction: what is refused is named, what is accepted is kept, nothing is half-written."""
    refused: list[Refusal] = []
    wanted: list[Wanted] = []
    for index, wish in enumerate(wishes):
        try:
            wanted.append((index, canonical(wish["url"]), wish))
        except BadUrl as error:
            refused.append(Refusal(index, wish["url"][:200], "url", str(error)))
    result = await try_again(pool, lambda conn: _take(conn, wanted, batch=batch, created_by=created_by))
    TASKS_ADDED.labels("api").inc(len(result.created))
    result.refused = sorted([*refused, *result.refused], key=lambda refusal: refusal.index)
    return result


async def _take(conn: Conn, wanted: Sequence[Wanted], *, batch: str | None, created_by: str) -> Submitted:
    row = await get_batch(conn, batch) if batch is not None else None
    if batch is not None and row is None:
        raise UnknownBatch(batch)
    asked_for = sorted({wish["parent_task_id"] for _, _, wish in wanted if wish.get("parent_task_id")})
    parents = await lock_tasks(conn, asked_for) if asked_for else {}
    domains = await lock_domains(conn, sorted({target.domain for _, target, _ in wanted}))
    tasks, refused = [], []
    for index, target, wish in wanted:
        domain_id = domains.get(target.domain)
        parent_id = wish.get("parent_task_id")
        if domain_id is None:
            message = f"the domain {target.domain} is not known; create it with POST /api/admin/domains"
            refused.append(Refusal(index, target.url, "url", message))
        elif parent_id and (parent_id not in parents or parents[parent_id].kind != "page"):
            refused.append(Refusal(index, target.url, "parent_task_id", f"no page is task {parent_id}"))
        else:
            options = {name: value for name, value in wish.items() if name != "url" and value is not None}
            if parent_id:
                options["awaits_parent"] = parents[parent_id].status is not Status.COMPLETED
            tasks.append(NewTask(domain_id, target.url, target.digest, **options))
    locked = (await lock_batches(conn, [row["batch_id"]]))[row["batch_id"]] if row is not None else None
    admitted = await admit(conn, tasks, batch=locked, created_by=created_by)
    if locked is not None and locked["sitemaps"] and (admitted.created or admitted.recrawled):
        await ask_for_sitemaps(conn, locked, await get_domains(conn, sorted(domains.values())))
    await _tell_parents(conn, parents, [task for task in tasks if task.digest in admitted.created])
    await wake_domains(conn, admitted.due)
    rest = [task.digest for task in tasks if task.digest not in admitted.created]
    known = await find_tasks(conn, rest) if rest else {}
    return Submitted(admitted.created, known, refused)


async def _tell_parents(conn: Conn, parents: Mapping[int, TaskRow], added: Sequence[NewTask]) -> None:
    """A parent tells its children when it ends; one that has ended without completing tells those that come now."""
    waited_for = sorted({task.parent_task_id for task in added if task.awaits_parent and task.parent_task_id})
    await mark_parents(conn, waited_for)
    ended = [parents[task_id] for task_id in waited_for if parents[task_id].status in TERMINAL]
    await add_ends(conn, [(parent.task_id, parent.status.value) for parent in ended])
