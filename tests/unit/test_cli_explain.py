"""`limpet explain` against a front door that answers as the API says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from limpet.cli.explain import WAKES, ago, told
from limpet.cli.main import app
from limpet.scheduler.facts import Wakes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID: dict[str, Any] = {
    "task_id": 7, "url": "http://a/[b]", "status": "pending", "gate": "retry", "sentence": "retry 2 of 3 is at noon: [x]",
    "since": "2026-03-01T11:57:00Z", "wakes": "clock", "wakes_at": "2026-03-01T12:00:42Z", "next": "it enters the queue",
    "details": {"attempt": 2},
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was asked of a front door that knows one task."""
    targets: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            targets.append(self.path)
            known = "7" in self.path or "a%2F" in self.path
            problem = {"title": "Not found", "detail": "no task has it; the domain is known", "errors": []}
            text = json.dumps(SAID if known else problem).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("LIMPET_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("LIMPET_API_KEY", "k")
    yield targets
    server.shutdown()
    thread.join()
    server.server_close()


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["explain", *words])
    return done.exit_code, done.output


def test_a_url_and_an_id_are_explained_in_a_few_lines(asked: list[str]) -> None:
    for word in ("http://a/?x=1&y", "7"):
        code, said = run(word)
        assert code == 0, said
        assert said.splitlines()[0] == "http://a/[b] (task 7): pending, retry"
        assert said.splitlines()[1] == SAID["sentence"]
        assert "wakes it: the clock, " in said
    assert asked == ["/api/admin/explain?url=http%3A%2F%2Fa%2F%3Fx%3D1%26y", "/api/admin/tasks/7/explain"]


def test_all_of_it_is_printed_as_json_where_that_is_asked_for(asked: list[str]) -> None:
    code, said = run("7", "--json")
    assert (code, json.loads(said)) == (0, SAID)


def test_a_url_that_is_no_task_says_what_the_platform_says(asked: list[str]) -> None:
    code, said = run("http://b/")
    assert code == 2
    assert "the domain is known" in said


def test_times_are_told_from_now() -> None:
    assert told(SAID, now=NOW)[2:4] == ["since: 3 min ago", "wakes it: the clock, in 42 s"]
    waits = told({**SAID, "wakes": "permit_back", "wakes_at": None}, now=NOW)
    assert waits[3] == "wakes it: a request that comes back"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.3, "now"), (42, "in 42 s"), (-42, "42 s ago"), (180, "in 3 min"), (10_800, "in 3 h"), (-7000, "117 min ago")],
)
def test_a_time_is_spoken(seconds: float, words: str) -> None:
    assert ago(NOW + timedelta(seconds=seconds), now=NOW) == words


def test_a_time_that_is_days_away_has_its_date() -> None:
    assert ago(NOW + timedelta(days=3), now=NOW).startswith("in 3 days (2026-03-0")


def test_the_command_has_words_for_everything_that_wakes_a_task() -> None:
    assert set(WAKES) == {wakes.value for wakes in Wakes}
