"""What a person asks of a task, and whether its status allows it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from limpet.scheduler.lifecycle import PARSE_PHASE, TRANSITIONS, Status
from limpet.scheduler.outcome import TaskRow


class Command(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RESTART = "restart"
    RESTART_PARSING = "restart-parsing"


EVENTS: Final = {
    Command.PAUSE: "paused",
    Command.RESUME: "resumed",
    Command.CANCEL: "cancelled",
    Command.RESTART: "restarted",
    Command.RESTART_PARSING: "reparsed",
}


def is_done(command: Command, task: TaskRow) -> bool:
    """It was asked for before, and nothing has happened since."""
    if task.kind != "page":
        return False
    match command:
        case Command.PAUSE:
            return task.status is Status.PAUSED
        case Command.CANCEL:
            return task.status is Status.CANCELLED
        case Command.RESTART:
            return task.status is Status.PENDING and task.attempt == task.crawl_base
        case _:
            return False


def refusal(command: Command, task: TaskRow) -> str | None:
    """Why not; None where the table of changes allows it."""
    if task.kind in ("robots", "list"):
        return f"is that of a {task.kind} task, which the scheduler looks after by itself"
    sources = TRANSITIONS[EVENTS[command]].sources
    if task.status in sources:
        return None
    return f"is {task.status}; {command} works from {', '.join(status for status in Status if status in sources)}"


def obey(command: Command, task: TaskRow) -> None:
    """Change the task as asked. One that goes on does so from where it stood."""
    stood, task.paused_from = task.paused_from, None
    match command:
        case Command.PAUSE:
            task.paused_from = task.status.value
            target = Status.PAUSED
        case Command.RESUME:
            target = Status.DOWNLOADED if stood in PARSE_PHASE else Status.PENDING
        case Command.CANCEL:
            target = Status.CANCELLED
        case Command.RESTART:
            target = Status.PENDING
        case Command.RESTART_PARSING:
            target = Status.DOWNLOADED
    task.become(EVENTS[command], target)
