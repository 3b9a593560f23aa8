"""The front door as the commands use it: one method per request, problems as errors people can read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from limpet.cli.errors import CliError, WrongInput

PAGE: Final = 1000
TASKS_AT_ONCE: Final = 1000
# A service that was killed is back after a moment: ask again before giving up.
PATIENCE_SECONDS: Final = 30.0
AGAIN_AFTER_SECONDS: Final = 0.5
PASSING: Final = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)


class FrontDoor:
    """A platform, seen from outside."""

    def __init__(self, url: str, *, key: str) -> None:
        self.url = url.rstrip("/")
        local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=30.0,
            trust_env=not local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ensure_domain(self, name: str, *, delay: float | None, default_delay: float) -> None:
        """Create the domain when it is missing; change an existing one only where `delay` was asked for."""
        path = f"/api/admin/domains/{name}"
        present = self._send("GET", path, fine=(httpx.codes.NOT_FOUND,))
        if present.status_code == httpx.codes.NOT_FOUND:
            body = {"name": name, "crawl_delay_seconds": default_delay if delay is None else delay}
            present = self._send("POST", "/api/admin/domains", body=body, fine=(httpx.codes.CONFLICT,))
            if present.status_code != httpx.codes.CONFLICT:
                return
        if delay is not None:
            self._send("PATCH", path, body={"crawl_delay_seconds": delay})

    def create_batch(self, name: str, *, follow: bool, max_pages: int | None) -> None:
        body: dict[str, Any] = {"name": name, "follow": follow, "recrawl": True}
        if max_pages is not None:
            body["max_pages"] = max_pages
        self._send("POST", "/api/admin/batches", body=body)

    def submit(self, urls: Sequence[str], *, batch: str) -> list[Mapping[str, Any]]:
        """Submit the URLs; the refused ones come back, each with its reason."""
        refused: list[Mapping[str, Any]] = []
        for start in range(0, len(urls), TASKS_AT_ONCE):
            tasks = [{"url": url, "is_recurring": False} for url in urls[start : start + TASKS_AT_ONCE]]
            answer = self._send("POST", "/api/admin/tasks/bulk", body={"tasks": tasks, "batch": batch})
            refused.extend(answer.json().get("refused", []))
        return refused

    def batch_tasks(self, name: str) -> Mapping[str, int]:
        """The batch's tasks, counted by status."""
        counts: Mapping[str, int] = self._send("GET", f"/api/admin/batches/{name}").json()["tasks"]
        return counts

    def batch_failures(self, name: str, *, limit: int) -> list[Mapping[str, Any]]:
        """Some of the tasks that failed."""
        query = {"batch": name, "status": "failed", "limit": limit}
        failed: list[Mapping[str, Any]] = self._send("GET", "/api/admin/tasks", query=query).json()["items"]
        return failed

    def items(self, batch: str) -> Iterator[Mapping[str, Any]]:
        """Every item of the batch, page by page."""
        query: dict[str, Any] = {"batch": batch, "limit": PAGE}
        while True:
            answer = self._send("GET", "/api/items", query=query).json()
            yield from answer["items"]
            if not answer.get("next"):
                return
            query["after"] = answer["next"]

    def explain(self, what: str) -> Mapping[str, Any]:
        """Why a task, or the task of a URL, stands where it stands."""
        by_id = what.isascii() and what.isdigit()
        path, query = (f"/api/admin/tasks/{what}/explain", None) if by_id else ("/api/admin/explain", {"url": what})
        said: Mapping[str, Any] = self._send("GET", path, query=query, patience=0.0).json()
        return said

    def health(self) -> Mapping[str, Any]:
        """The verdict on the platform; a bad one comes with status 503 and is an answer too."""
        verdict: Mapping[str, Any] = self._send("GET", "/health", fine=PASSING, patience=0.0).json()
        return verdict

    def stats(self) -> Mapping[str, Any]:
        stats: Mapping[str, Any] = self._send("GET", "/api/system/stats", patience=0.0).json()
        return stats

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        text: str | None = None,
        kind: str = "text/plain",
        headers: Mapping[str, str] | None = None,
        fine: Sequence[int] = (),
        patience: float = PATIENCE_SECONDS,
    ) -> httpx.Response:
        """Send once, or again while the platform is only away for a moment. A body is JSON, or text of some kind."""
        sent: dict[str, Any] = {"json": body, "headers": headers}
        if text is not None:
            sent = {"content": text.encode(), "headers": {**(headers or {}), "Content-Type": kind}}
        deadline = time.monotonic() + patience
        while True:
            late = time.monotonic() >= deadline
            try:
                answer = self._client.request(method, path, params=query, **sent)
            except httpx.TransportError as error:
                if late:
                    hint = "Is it running? Start it with: limpet up"
                    raise CliError(f"The platform at {self.url} does not answer: {error}", hint=hint) from error
            else:
                if answer.is_success or answer.status_code in fine:
                    return answer
                if late or answer.status_code not in PASSING:
                    raise as_error(answer)
            time.sleep(AGAIN_AFTER_SECONDS)


def as_error(answer: httpx.Response) -> CliError:
    """A problem+json answer as one line; the platform names the field that is wrong."""
    try:
        problem = answer.json()
        facts = [problem.get("title", ""), problem.get("detail", "")]
        facts += [f"{wrong['field']}: {wrong['message']}" for wrong in problem.get("errors") or []]
    except (ValueError, AttributeError, KeyError, TypeError):
        facts = [answer.text[:200]]
    said = "; ".join(fact for fact in facts if fact)
    message = f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {said}"
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return WrongInput(message, hint="Set LIMPET_API_KEY to a key with the role admin.")
    if answer.is_client_error:
        return WrongInput(message)
    return CliError(message, hint="limpet status shows how the platform is.")
