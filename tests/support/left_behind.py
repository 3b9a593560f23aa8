"""Everything that a platform has written anywhere, and where in it a secret stands in any of its forms."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import httpx
import nats
from nats.js.errors import NotFoundError

from limpet.cli.local.platform import Platform
from limpet.cli.local.postgres import binaries
from tests.support.door import Door

Texts = dict[str, bytes]


def forms(user: str, password: str) -> set[bytes]:
    """As it is, as JSON and URLs write it, and as HTTP sends it."""
    plain = password.encode()
    basic = b64encode(f"{user}:{password}".encode())
    return {plain, json.dumps(password)[1:-1].encode(), quote(password, safe="").encode(), basic, b64encode(plain)}


def places_of(found: set[bytes], texts: Texts) -> list[str]:
    return sorted(name for name, text in texts.items() if any(form in text for form in found))


def listen_to_answers(door: Door) -> Texts:
    """Every answer of the front door from now on, with its headers."""
    answers: Texts = {}

    async def keep(response: httpx.Response) -> None:
        body = await response.aread()
        head = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
        name = f"answer {len(answers)} to {response.request.method} {response.request.url.path}"
        answers[name] = head.encode() + b"\n\n" + body

    door.client.event_hooks["response"].append(keep)
    return answers


async def left_behind(platform: Platform) -> Texts:
    """By name: each file of the data folder, a dump of each database, each event, the metrics of each service."""
    texts = dict(_files(platform))
    for name, dsn in platform.runtime.dsns.items():
        texts[f"dump {name}"] = await _dump(dsn)
    texts |= await _events(platform.runtime.nats_url)
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, port in platform.runtime.ports.items():
            if name.endswith(".ops"):
                texts[f"metrics {name}"] = (await client.get(f"http://127.0.0.1:{port}/metrics")).content
    return texts


def _files(platform: Platform) -> Iterator[tuple[str, bytes]]:
    """Logs, JetStream's store, stored pages, and the files of PostgreSQL as they are, its log of changes included."""
    for path in sorted(platform.data.rglob("*")):
        # Files of running servers come and go.
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                yield f"file {path.relative_to(platform.data)}", path.read_bytes()


async def _dump(dsn: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        str(binaries() / "pg_dump"), dsn, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out


async def _events(nats_url: str) -> Texts:
    """Every message that the streams still hold."""
    texts: Texts = {}
    client = await nats.connect(nats_url)
    try:
        js = client.jetstream()
        for stream in await js.streams_info():
            name = stream.config.name or ""
            for number in range(max(1, stream.state.first_seq), stream.state.last_seq + 1):
                # Orders go when they are taken.
                with suppress(NotFoundError):
                    message = await js.get_msg(name, number)
                    headers = json.dumps(message.headers or {}).encode()
                    texts[f"event {name} {number} {message.subject}"] = headers + (message.data or b"")
    finally:
        await client.close()
    return texts
