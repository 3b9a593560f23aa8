"""Lists of proxies over REST: plain text as providers hand it out, or CSV with a header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool
from limpet.kit.rest import Problem, field_problem, require
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import ImportOptions
from limpet.proxy_broker.import_proxies import Import
from limpet.proxy_broker.proxy_lines import BadHeader, Entry, Refusal, read_csv, read_plain
from limpet.proxy_broker.vault import Vault

MOST_LINES: Final = 100_000
READERS: Final[dict[str, Callable[[str], Iterator[Entry | Refusal]]]] = {"text/plain": read_plain, "text/csv": read_csv}
NOT_OF_A_LINE: Final = {"dry_run", "domain", "priority"}
_TEXT: Final = {"schema": {"type": "string"}}
BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/plain": {
                **_TEXT,
                "example": "203.0.113.7:8080:user:password\nsocks5://user:password@[2001:db8::7]:1080",
            },
            "text/csv": {
                **_TEXT,
                "example": "host,port,username,password,country_code\n203.0.113.7,8080,user,password,DE",
            },
        },
    }
}


def make_router(pool: Pool, vault: Vault, announce: Announce) -> APIRouter:
    router = APIRouter(prefix="/api/admin/proxies", tags=["proxies"])
    importing = Import(pool=pool, vault=vault, announce=announce)

    @router.post("/import", responses=problems(415), openapi_extra=BODY, dependencies=[require("admin")])
    async def take(request: Request, options: Annotated[ImportOptions, Query()]) -> answers.Imported:
        """Add many proxies. Known ones stay as they are, wrong lines are refused one by one."""
        lines = _lines(request.headers.get("content-type", ""), await request.body())
        defaults = options.model_dump(exclude=NOT_OF_A_LINE, exclude_none=True)
        domain = options.domain.lower() if options.domain is not None else None
        if options.dry_run:
            outcome = await importing.look(lines, defaults=defaults, domain=domain)
        else:
            outcome = await importing.take(lines, defaults=defaults, domain=domain, priority=options.priority)
        return answers.Imported(dry_run=options.dry_run, **asdict(outcome))

    return router


def _lines(content_type: str, body: bytes) -> Iterator[Entry | Refusal]:
    read = READERS.get(content_type.partition(";")[0].strip().lower())
    if read is None:
        message = f"must be one of {', '.join(READERS)}"
        raise Problem(415, "Unsupported media type", message, errors=[{"field": "Content-Type", "message": message}])
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise field_problem("body", "is not UTF-8", status=400) from None
    if text.count("\n") > MOST_LINES:
        raise field_problem("body", f"has more than {MOST_LINES} lines")
    lines = read(text)
    try:
        # A header is judged before anything is written.
        first = next(lines, None)
    except BadHeader as error:
        raise field_problem("body", str(error)) from None
    return lines if first is None else chain([first], lines)
