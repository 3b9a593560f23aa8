"""A page for a command that looks at one: saved in a file, or fetched once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from limpet.cli.errors import WrongInput
from limpet.cli.naming import domain_name

MAX_BYTES: Final = 10_000_000
SECONDS: Final = 30.0
AGENT: Final = "limpet-judge"


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    body: bytes


def saved(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise WrongInput(f"{path} cannot be read: {error.strerror}.", hint="Give a saved page or a URL.") from error


def fetched(url: str) -> Answer:
    domain_name(url)
    body = b""
    try:
        with httpx.stream("GET", url, timeout=SECONDS, headers={"User-Agent": AGENT}) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) >= MAX_BYTES:
                    break
            return Answer(response.status_code, response.headers.get("Content-Type", ""), body[:MAX_BYTES])
    except httpx.HTTPError as error:
        raise WrongInput(f"{url} could not be fetched: {type(error).__name__} {error}.", hint="Is it up?") from error
