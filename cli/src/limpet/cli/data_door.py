"""The front door to extracted data: streams of it, and stored pages that are read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from limpet.cli.errors import CliError
from limpet.cli.front_door import FrontDoor, as_error

REPARSE = "/api/admin/reparse"


class DataDoor(FrontDoor):
    @contextmanager
    def stream(self, path: str, query: Mapping[str, Any]) -> Iterator[Iterator[bytes]]:
        """The answer in pieces, however large. One that is cut short is an error, not an end."""
        try:
            with self._client.stream("GET", path, params=query) as answer:
                if not answer.is_success:
                    answer.read()
                    raise as_error(answer)
                yield answer.iter_bytes()
        except httpx.TransportError as error:
            raise CliError(f"The answer of {self.url} broke off: {error}", hint="Try again.") from error

    def start_reparse(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sent again where no answer came: the key makes one job of it."""
        answer = self._send("POST", REPARSE, body=wanted, headers={"Idempotency-Key": uuid4().hex})
        job: Mapping[str, Any] = answer.json()
        return job

    def reparse_job(self, job_id: int) -> Mapping[str, Any]:
        job: Mapping[str, Any] = self._send("GET", f"{REPARSE}/{job_id}").json()
        return job

    def cancel_reparse(self, job_id: int) -> Mapping[str, Any]:
        job: Mapping[str, Any] = self._send("POST", f"{REPARSE}/{job_id}/cancel").json()
        return job
