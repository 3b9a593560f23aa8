"""P1: parsers and recipes tried out at the terminal, against a saved page or a real server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limpet.cli.main import app

PAGE = """<title>Boots</title><h1>Boots "x" \\ caf\u00e9</h1><a href=/p/1>one</a>
<script type="application/ld+json">{"@type": "Product", "name": "Boots \\"x\\" caf\u00e9 \\"\\"\\"", "sku": "7",
"offers": [{"price": "12.50", "priceCurrency": "EUR"}]}</script>"""
runner = CliRunner()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "saved.html"
    path.write_text(PAGE)
    return path


@pytest.fixture
def server() -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=windows-1252")
            self.end_headers()
            self.wfile.write("<h1>Caf\u00e9</h1><a href=x>x</a>".encode("cp1252"))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Answers) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/a"
        served.shutdown()
        thread.join()


def test_p1_a_saved_page_is_shown_as_a_table(page: Path) -> None:
    done = runner.invoke(app, ["parse", str(page), "--parser", "product"])
    assert done.exit_code == 0
    assert "item 1 of 1" in done.output
    assert "12.50" in done.output
    assert "page type product, 1 items, 1 links" in done.output


def test_p1_a_saved_page_is_shown_as_json_lines(page: Path) -> None:
    done = runner.invoke(app, ["parse", str(page), "--parser", "product", "--json", "--url", "https://shop.test/a"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["price"] == "12.50"


def test_p1_a_url_is_fetched_and_read_by_a_recipe(server: str, tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: cafe\nfields: {name: {css: h1}, link: {css: a, attribute: href, type: url}}")
    done = runner.invoke(app, ["parse", server, "--recipe", str(recipe), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"name": "Caf\u00e9", "link": server.replace("/a", "/x")}


def test_p1_a_page_with_nothing_for_the_parser_ends_with_code_1(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("<p>x</p>")
    assert runner.invoke(app, ["parse", str(tmp_path / "x.html"), "--parser", "product"]).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "either --parser or --recipe"),
        (["--parser", "generic", "--recipe", "x.yaml"], "either --parser or --recipe"),
        (["--parser", "no-such"], "There is no parser named 'no-such'"),
        (["--recipe", "no-such.yaml"], "no-such.yaml cannot be read"),
    ],
)
def test_p1_a_wrong_command_is_answered_with_what_is_wrong(page: Path, arguments: list[str], said: str) -> None:
    done = runner.invoke(app, ["parse", str(page), *arguments])
    assert done.exit_code == 2
    assert said in done.output


def test_p1_a_recipe_is_checked(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: shop\nfields: {name: {css: h1}}")
    done = runner.invoke(app, ["parser", "check", str(recipe)])
    assert done.exit_code == 0
    assert "is right: shop, version 1-" in done.output
    recipe.write_text("name: shop\nfields: {name: {css: 'h1['}}")
    done = runner.invoke(app, ["parser", "check", str(recipe)])
    assert done.exit_code == 2
    assert f"{recipe}: fields.name.css: 'h1[' is no CSS selector" in done.output.replace("\n", "")


@pytest.mark.parametrize("body", [PAGE, "<h1>Only a \"heading\" \\ ''' here</h1>"])
def test_p1_a_recipe_and_its_test_are_begun_from_a_saved_page(tmp_path: Path, body: str) -> None:
    saved = tmp_path / "saved.html"
    saved.write_text(body)
    folder = tmp_path / "my-shop"
    done = runner.invoke(app, ["parser", "new", "my-shop", "--from", str(saved), "--to", str(folder)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == ["my-shop.html", "my-shop.yaml", "test_my_shop.py"]
    # The test is one that passes, and that fails when the recipe reads something else.
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    assert subprocess.run(tested, capture_output=True, cwd=folder, check=False).returncode == 0
    recipe = folder / "my-shop.yaml"
    recipe.write_text(recipe.read_text() + "  more: {default: x}\n")
    assert subprocess.run(tested, capture_output=True, cwd=folder, check=False).returncode == 1
    # Nothing is written over.
    again = runner.invoke(app, ["parser", "new", "my-shop", "--from", str(saved), "--to", str(folder)])
    assert again.exit_code == 2
    assert "is there already" in again.output.replace("\n", " ")


@pytest.mark.parametrize(("name", "said"), [("My Shop", "no name for a recipe"), ("shop", "neither a product nor")])
def test_p1_a_recipe_cannot_be_begun_from_nothing(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "saved.html").write_text("<p>x</p>")
    done = runner.invoke(app, ["parser", "new", name, "--from", str(tmp_path / "saved.html"), "--to", str(tmp_path)])
    assert done.exit_code == 2
    assert said in done.output
