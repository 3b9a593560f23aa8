"""`make run`: serve the demo shop, crawl it with a platform started from nothing, show where the items are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # run as a file: the shop is found from the root

from tests.support.site import Shop  # noqa: E402

DATA = Path(".limpet/demo")
ITEMS = Path("out/items.jsonl")
CRAWL_SECONDS = 300.0
STOP_SECONDS = 30.0
# The shop has a page that fails twice and one that says "too many": nobody wants to watch a minute's pause.
PATIENCE = {"LIMPET_RETRY_BASE_SECONDS": "1", "LIMPET_BLOCK_BASE_SECONDS": "1"}


def main() -> int:
    os.chdir(ROOT)
    shutil.rmtree(DATA, ignore_errors=True)
    ITEMS.parent.mkdir(exist_ok=True)
    ITEMS.unlink(missing_ok=True)
    began = time.monotonic()
    with shop() as url:
        print(f"The demo shop is at {url}", flush=True)
        code = crawl(url)
    if code != 0:
        print(f"The crawl ended with exit code {code}. The logs are in {DATA / 'logs'}.", file=sys.stderr)
        return code
    missing = products_without_item(url)
    if missing:
        print(f"{len(missing)} products have no item, for example {sorted(missing)[:3]}.", file=sys.stderr)
        return 1
    print(f"An item for every product, {time.monotonic() - began:.0f} s in all. Look at them: {ITEMS}")
    return 0


@contextmanager
def shop() -> Iterator[str]:
    """The shop as a process of its own; its address with a slash at the end."""
    log = DATA.with_name("demo-shop.jsonl")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.support.site", "--port", "0", "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url.startswith("http"):
            raise SystemExit("The demo shop did not start.")
        yield url
    finally:
        stop(process)


def crawl(url: str) -> int:
    """Crawl with the output straight to this terminal, so that the progress bar is one."""
    command = [str(Path(sys.executable).with_name("limpet")), "crawl", url, "--follow", "--delay", "0.05"]
    # Not on a platform that may be running elsewhere: the demo shows one that starts from nothing.
    env = {name: value for name, value in os.environ.items() if name != "LIMPET_URL"} | PATIENCE
    process = subprocess.Popen([*command, "--out", str(ITEMS), "--data", str(DATA)], env=env)
    try:
        return process.wait(CRAWL_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"The crawl is not done after {CRAWL_SECONDS:.0f} s.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # the crawl has had the same Ctrl-C and ends in order
    finally:
        stop(process)


def stop(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def products_without_item(url: str) -> set[str]:
    """Compare with the shop's own catalogue, which is the same every time."""
    expected = {url.rstrip("/") + path: name for path, name in Shop().catalogue.product_names().items()}
    with ITEMS.open() as lines:
        items = [json.loads(line) for line in lines]
    # A product's page has its name as the title too, so this holds whichever parser read it.
    named = {(item["url"], item["data"].get("name") or item["data"].get("title")) for item in items}
    return {page for page, name in expected.items() if (page, name) not in named}


if __name__ == "__main__":
    sys.exit(main())
