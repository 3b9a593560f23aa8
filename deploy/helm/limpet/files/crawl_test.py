"""`helm test`: serve a page, have the platform crawl it, and read its item back. Needs nothing but Python."""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

API, SITE, KEY = os.environ["API"], os.environ["SITE"], os.environ["KEY"]
DEADLINE = time.monotonic() + float(os.environ["TIMEOUT"])
PATH = f"/page/{secrets.token_hex(8)}"
PRODUCT = {
    "@context": "https://schema.org",
    "@type": "Product",
    "name": "Limpet, crawled",
    "offers": {"@type": "Offer", "price": "12.50", "priceCurrency": "EUR"},
}
BODY = f"""<!doctype html><html lang="en"><head><title>Limpet, crawled</title>
<script type="application/ld+json">{json.dumps(PRODUCT)}</script></head>
<body><h1>Limpet, crawled</h1><p>{"A page that is long enough to be one. " * 20}</p></body></html>"""


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == PATH
        body = BODY.encode() if found else b"nothing here"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
    """The answer of the front door; it is asked again while it is away."""
    request = urllib.request.Request(f"{API}{path}", method=method)  # noqa: S310
    request.add_header("Authorization", f"Bearer {KEY}")
    data = None
    if body is not None:
        request.add_header("Content-Type", "application/json")
        data = json.dumps(body).encode()
    while True:
        try:
            with urllib.request.urlopen(request, data, timeout=10) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return error.code, json.load(error)
            why = f"{error.code}"
        except OSError as error:
            why = str(error)
        give_up_late(f"{method} {path}: {why}")


def give_up_late(why: str) -> None:
    if time.monotonic() > DEADLINE:
        sys.exit(f"FAILED: {why}")
    time.sleep(0.5)


def main() -> None:
    # Every address, of IPv4 or IPv6: that is what a site is for.
    site = ThreadingHTTPServer(("", 8000), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    domain = {"name": SITE, "crawl_delay_seconds": 0, "parser_name": "product"}
    status, answer = call("POST", "/api/admin/domains", domain)
    if status not in (201, 409):
        sys.exit(f"FAILED: the domain was refused: {answer}")
    status, task = call("POST", "/api/admin/tasks", {"url": f"http://{SITE}{PATH}", "priority": 1})
    if status not in (200, 201):
        sys.exit(f"FAILED: the task was refused: {task}")
    while task["status"] != "completed":
        if task["status"] in ("failed", "cancelled", "skipped"):
            sys.exit(f"FAILED: the task ended as {task}")
        give_up_late(f"the task is still {task}")
        task = call("GET", f"/api/admin/tasks/{task['task_id']}")[1]
    items: list[Any] = []
    while not items:
        status, found = call("GET", f"/api/items?task_id={task['task_id']}")
        if status != 200:
            sys.exit(f"FAILED: items were refused: {found}")
        items = found["items"]
        if not items:
            give_up_late(f"no item: {found}")
    sys.stdout.write(f"crawled {task['url']}: {json.dumps(items[0])}\n")


if __name__ == "__main__":
    main()
