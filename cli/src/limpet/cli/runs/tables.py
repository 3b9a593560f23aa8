"""Runs and their start pages as tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group
from rich.markup import escape
from rich.table import Column, Table

Answer = Mapping[str, Any]
COLOURS: Final = {
    "pending": "dim", "paginating": "cyan", "completed": "green", "failed": "red",
    "collecting": "cyan", "committed": "green", "aborted": "red",
}  # fmt: skip
# Of a run with very many start pages, those that matter now.
ROWS: Final = 40
_ORDER: Final = {"failed": 0, "paginating": 1, "pending": 2, "completed": 3}


def state(text: str) -> str:
    return f"[{COLOURS.get(text, 'default')}]{escape(text)}[/]"


def headline(run: Answer) -> str:
    """A run in one line."""
    pages = run["start_pages"]
    done, count = pages["completed"] + pages["failed"], sum(pages.values())
    parts = [
        f"run {run['run_id']} of [bold]{escape(run['site'])}[/]: {state(run['state'])}",
        f"{done} of {count} start pages ended",
        f"{run['list_pages']} list pages",
        f"{run['collected'] if run['urls'] is None else run['urls']} URLs",
    ]
    if run["new_tasks"] is not None:
        parts.append(f"{run['new_tasks']} new tasks in batch {escape(run['batch'] or '-')}")
    return ", ".join(parts)


def ending(run: Answer) -> str:
    """Why it was aborted; nothing for any other."""
    return f"aborted ({run['gate']}): {escape(run['reason'])}" if run["state"] == "aborted" else ""


def start_page_table(pages: Sequence[Answer]) -> Table:
    where = Column("start page", overflow="fold")
    table = Table("", where, "state", "URLs", "list pages", "failures", "what was last", title_justify="left")
    shown = pages if len(pages) <= ROWS else sorted(pages, key=lambda page: _ORDER.get(page["state"], 9))[:ROWS]
    for page in shown:
        history = page["failure_history"]
        last = page["reason"] or (history[-1]["error"] if history else "")
        table.add_row(
            str(page["start_no"]),
            escape(page["start_page_url"]),
            state(page["state"]),
            str(page["collected"]),
            str(page["list_pages"]),
            str(page["failure_count"]),
            escape(last),
        )
    if len(shown) < len(pages):
        table.caption = f"{len(shown)} of {len(pages)}: limpet run show --json has all of them"
    return table


def view(run: Answer, pages: Sequence[Answer]) -> Group:
    return Group(headline(run), start_page_table(pages), *([why] if (why := ending(run)) else []))


def run_table(runs: Sequence[Answer]) -> Table:
    # An id is there to be copied.
    whole = Column("run", no_wrap=True, min_width=36)
    table = Table(whole, "site", "state", "start pages", "URLs", "new tasks", "begun", "why", title_justify="left")
    for run in runs:
        pages = run["start_pages"]
        table.add_row(
            run["run_id"],
            escape(run["site"]),
            state(run["state"]),
            f"{pages['completed']} of {sum(pages.values())}",
            str(run["collected"] if run["urls"] is None else run["urls"]),
            "" if run["new_tasks"] is None else str(run["new_tasks"]),
            run["created_at"][:19].replace("T", " "),
            escape(run["reason"] or ""),
        )
    return table
