"""The front door's part for proxies, pools and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from limpet.cli.errors import CliError
from limpet.cli.front_door import PAGE, FrontDoor
from limpet.cli.reach import find

PROXIES: Final = "/api/admin/proxies"
Answer = Mapping[str, Any]


class ProxyDoor(FrontDoor):
    """One method per request."""

    def list_proxies(self, filters: Answer) -> Iterator[Answer]:
        """Every proxy that fits, page by page."""
        yield from self._pages(PROXIES, filters)

    def add_proxy(self, body: Answer) -> Answer:
        return self._answer("POST", PROXIES, body=body)

    def show_proxy(self, proxy_id: int) -> Answer:
        return self._answer("GET", f"{PROXIES}/{proxy_id}")

    def decide(self, proxy_id: int, verb: str) -> Answer:
        """`verb` is enable or disable."""
        return self._answer("POST", f"{PROXIES}/{proxy_id}/{verb}")

    def remove_proxy(self, proxy_id: int) -> None:
        self._send("DELETE", f"{PROXIES}/{proxy_id}", patience=0.0)

    def import_proxies(self, text: str, *, kind: str, options: Answer) -> Answer:
        """A repeat adds nothing, so that it is sent again while the platform is away for a moment."""
        answer: Answer = self._send("POST", f"{PROXIES}/import", text=text, kind=kind, query=options).json()
        return answer

    def rotate_keys(self, *, after: int) -> Answer:
        answer: Answer = self._send("POST", f"{PROXIES}/rotate-keys", query={"after": after}).json()
        return answer

    def costs(self, query: Answer) -> Iterator[Answer]:
        yield from self._pages("/api/admin/proxy-costs", query)

    def sizing(self, domain: str, query: Answer) -> Answer:
        return self._answer("GET", f"{_pool(domain)}/sizing", query=query)

    def policy(self, domain: str) -> Answer:
        return self._answer("GET", f"{_pool(domain)}/policy")

    def put_policy(self, domain: str, body: Answer) -> Answer:
        return self._answer("PUT", f"{_pool(domain)}/policy", body=body)

    def drop_policy(self, domain: str) -> None:
        self._send("DELETE", f"{_pool(domain)}/policy", fine=(404,), patience=0.0)

    def _pages(self, path: str, query: Answer) -> Iterator[Answer]:
        wanted = {**query, "limit": PAGE}
        while True:
            answer = self._answer("GET", path, query=wanted)
            yield from answer["items"]
            if answer["next"] is None:
                return
            wanted["after"] = answer["next"]

    def _answer(self, method: str, path: str, *, body: Answer | None = None, query: Answer | None = None) -> Answer:
        answer: Answer = self._send(method, path, body=body, query=query, patience=0.0).json()
        return answer


@contextmanager
def open_door(data: Path) -> Iterator[ProxyDoor]:
    """The platform that runs, or an error that says how to start one."""
    reached = find(data)
    if reached is None:
        raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
    with ProxyDoor(reached.url, key=reached.key) as door:
        yield door


def _pool(domain: str) -> str:
    return f"/api/admin/domain-proxies/{quote(domain, safe='')}"
