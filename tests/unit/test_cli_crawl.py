"""`limpet crawl` against a front door that answers as the API says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from limpet.cli.allowed_hosts import allow
from limpet.cli.main import app


@dataclass
class Door:
    """The answers, and the requests that came."""

    domains: set[str] = field(default_factory=set)
    tasks: dict[str, int] = field(default_factory=lambda: {"completed": 2, "failed": 0})
    items: list[dict[str, Any]] = field(default_factory=lambda: [{"item_id": number} for number in range(3)])
    refused: list[dict[str, str]] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        self.asked.append((method, path, body))
        match method, path.split("/")[3:]:
            case "GET", ["domains", name]:
                return (200 if name in self.domains else 404), {"title": "no such domain"}
            case "GET", ["batches", _]:
                return 200, {"tasks": self.tasks}
            case "POST", ["tasks", "bulk"]:
                return 200, {"created": 2, "known": 0, "refused": self.refused}
            case "GET", ["tasks"]:
                return 200, {"items": [{"url": "http://a/", "error_message": "timeout"}], "next": None}
            case "GET", []:
                after = int(query.get("after", ["0"])[0])
                return 200, {"items": self.items[after : after + 1], "next": after + 1 if after < 2 else None}
            case "POST", _:
                return 201, {}
        return 200, {}


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Door]:
    served = Door()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, answer = served.answer(self.command, self.path, body)
            if self.headers["Authorization"] != "Bearer k":
                status, answer = 401, {"title": "Unauthorized", "detail": "wrong key"}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("LIMPET_URL", served.url)
    monkeypatch.setenv("LIMPET_API_KEY", "k")
    monkeypatch.chdir(tmp_path)
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["crawl", *words])
    return done.exit_code, done.output


def test_a_crawl_writes_every_item_and_ends_with_a_summary(door: Door, tmp_path: Path) -> None:
    code, said = run("http://a:8000/1", "http://a:8000/2", "--max-pages", "9")
    assert code == 0, said
    assert said.splitlines()[-1].startswith("2 pages, 3 items, 0 failed, ")
    lines = (tmp_path / "items.jsonl").read_text().splitlines()
    assert [json.loads(line)["item_id"] for line in lines] == [0, 1, 2]
    sent = {path: body for method, path, body in door.asked if method == "POST"}
    assert sent["/api/admin/domains"] == {"name": "a:8000", "crawl_delay_seconds": 1.0}
    assert sent["/api/admin/batches"].items() >= {"follow": False, "recrawl": True, "max_pages": 9}.items()
    assert sent["/api/admin/tasks/bulk"]["tasks"][0] == {"url": "http://a:8000/1", "is_recurring": False}


def test_s22_what_to_follow_is_said_to_the_platform_and_nothing_that_was_not_said(door: Door) -> None:
    words = ["--depth", "2", "--include", "/a/", "--exclude", "x", "--exclude", "y", "--allow-host", "Other.test"]
    words += ["--drop-param", "ref*", "--max-bytes", "1000", "--sitemaps", "--ignore-nofollow", "--no-traps"]
    code, said = run("http://a/", *words)
    assert code == 0, said
    sent = {path: body for method, path, body in door.asked if method == "POST"}
    batch = sent["/api/admin/batches"]
    assert (batch["follow"], batch["max_bytes"], batch["sitemaps"]) == (True, 1000, True)
    assert batch["scope"] == {
        "max_depth": 2, "include": ["/a/"], "exclude": ["x", "y"], "allow_hosts": ["other.test"], "drop_params": ["ref*"],
        "obey_nofollow": False, "traps": False,
    }  # fmt: skip
    named = [body["name"] for method, path, body in door.asked if (method, path) == ("POST", "/api/admin/domains")]
    assert named == ["a", "other.test"]
    door.asked.clear()
    run("http://a/")
    assert [body["scope"] for method, path, body in door.asked if path == "/api/admin/batches"] == [{}]


def test_an_existing_domain_is_changed_only_when_a_delay_was_asked_for(door: Door) -> None:
    door.domains.add("a")
    run("http://a/")
    assert not [path for method, path, _ in door.asked if method == "PATCH" or path == "/api/admin/domains"]
    run("http://a/", "--delay", "0.5")
    assert ("PATCH", "/api/admin/domains/a", {"crawl_delay_seconds": 0.5}) in door.asked


def test_a_failed_page_makes_the_exit_code_1(door: Door) -> None:
    door.tasks = {"completed": 1, "failed": 1}
    code, said = run("http://a/")
    assert code == 1
    assert "failed: http://a/: timeout" in said


def test_urls_that_are_all_refused_are_wrong_input(door: Door) -> None:
    door.refused = [{"url": "http://a/", "field": "url", "message": "out of scope"}]
    code, said = run("http://a/")
    assert code == 2
    assert "out of scope" in said


@pytest.mark.parametrize(
    "words", [["a.example"], ["http://a/", "--out", "no/such/folder/x"], ["http://a/", "--delay", "-1"], []]
)
def test_wrong_input_asks_nothing_and_exits_2(door: Door, words: list[str]) -> None:
    assert run(*words)[0] == 2
    assert door.asked == []


def test_a_wrong_key_is_named_with_what_to_do(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_API_KEY", "other")
    code, said = run("http://a/")
    assert code == 2
    assert "LIMPET_API_KEY" in said


def test_a_remote_platform_leaves_the_local_allow_list_alone(door: Door, tmp_path: Path) -> None:
    run("http://a/")
    assert not (tmp_path / ".limpet").exists()


def test_typed_hosts_are_added_once(tmp_path: Path) -> None:
    file = tmp_path / "allowed-hosts"
    file.write_text("a")
    assert allow(file, ["a", "b:8000", "b:8000"]) == ["b:8000"]
    assert allow(file, ["b:8000"]) == []
    assert file.read_text() == "a\nb:8000\n"
