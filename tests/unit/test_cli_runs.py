"""Runs as people see them at the command line."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from limpet.cli.runs.tables import ROWS, ending, headline, run_table, view

RUN: dict[str, Any] = {
    "run_id": "0190d0f4-7a2e-7000-8000-000000000001", "site": "shop.[b]test", "state": "collecting", "gate": None, "reason": None,
    "start_pages": {"pending": 1, "paginating": 1, "completed": 2, "failed": 0}, "list_pages": 9, "collected": 80, "urls": None,
    "new_tasks": None, "batch": None, "created_at": "2026-03-01T12:00:00.123Z",
}  # fmt: skip


def page(number: int, state: str, **fields: Any) -> dict[str, Any]:
    return {
        "start_no": number, "start_page_url": f"http://shop/{number}", "state": state, "collected": 4, "list_pages": 2,
        "failure_count": 0, "failure_history": [], "reason": None, **fields,
    }  # fmt: skip


def shown(what: Any) -> str:
    console = Console(width=200, highlight=False)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def test_s19_a_run_is_told_in_one_line() -> None:
    text = shown(headline(RUN))
    assert "of shop.[b]test: collecting, 2 of 4 start pages ended, 9 list pages, 80 URLs" in text
    done = {**RUN, "state": "committed", "urls": 70, "new_tasks": 60, "batch": "run-x"}
    assert "70 URLs, 60 new tasks in batch run-x" in shown(headline(done))
    assert ending(done) == ""


def test_s19_every_start_page_has_a_line_with_what_was_last() -> None:
    failed = [{"time": "", "proxy_id": 3, "error": "reset [red]"}]
    pages = [
        page(1, "completed", reason="exhausted at 2"),
        page(2, "paginating", failure_count=1, failure_history=failed),
    ]
    text = shown(view({**RUN, "state": "aborted", "gate": "empty", "reason": "no [b]URL"}, pages))
    assert "exhausted at 2" in text
    assert "reset [red]" in text
    assert "aborted (empty): no [b]URL" in text


def test_s19_of_very_many_start_pages_those_that_matter_are_shown() -> None:
    pages = [page(number, "completed") for number in range(ROWS * 2)] + [page(999, "failed", reason="gone")]
    text = shown(view(RUN, pages))
    assert "http://shop/999" in text
    assert f"{ROWS} of {ROWS * 2 + 1}" in text


def test_s19_ids_in_a_list_are_whole_in_a_narrow_terminal() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(run_table([RUN]))
    assert RUN["run_id"] in capture.get()
