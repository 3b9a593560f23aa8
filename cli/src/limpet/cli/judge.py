"""`limpet judge`: would this answer be taken for a page, and why (not)?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from limpet.cli.answers import Answer, fetched, saved
from limpet.cli.terminal import out, readable_errors
from limpet.contracts.events.v1.page_pb2 import RejectKind
from limpet.fetcher.validate import Failure, Rejection, verdict


def judge(
    what: Annotated[str, typer.Argument(metavar="FILE|URL", help="A saved page, or a URL to fetch once.")],
    status: Annotated[int, typer.Option(min=100, max=599, help="Status that the saved page came with.")] = 200,
    content_type: Annotated[str, typer.Option(help="Its content type.")] = "text/html",
    min_bytes: Annotated[int, typer.Option(min=0, help="HTML below this size is garbage.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say whether an answer is a page, and the evidence where it is not. Exit code 1 means that it is none."""
    with readable_errors():
        is_url = what.startswith(("http://", "https://"))
        answer = fetched(what) if is_url else Answer(status, content_type, saved(Path(what)))
    found = told(answer, min_bytes=min_bytes)
    if as_json:
        out.print_json(json.dumps(found))
    else:
        for name, value in found.items():
            out.print(f"[bold]{name}[/]: {escape(', '.join(value) if isinstance(value, list) else str(value))}")
    raise typer.Exit(0 if found["verdict"] == "good" else 1)


def told(answer: Answer, *, min_bytes: int) -> dict[str, Any]:
    judged = verdict(
        status=answer.status,
        content_type=answer.content_type.partition(";")[0].strip().lower(),
        body=answer.body,
        retry_after=0,
        min_body_bytes=min_bytes,
    )
    about = {"status": answer.status, "content_type": answer.content_type, "size_bytes": len(answer.body)}
    if isinstance(judged, Failure):
        return {"verdict": "failed", "reason": judged.error, **about}
    if isinstance(judged, Rejection):
        name = RejectKind.Name(judged.kind).removeprefix("REJECT_KIND_").lower()
        evidence = asdict(judged.wall) if judged.wall else {}
        kept = {key: evidence[key] for key in ("score", "vendor", "signals") if evidence.get(key)}
        kept = {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}
        return {"verdict": name, "reason": judged.reason, "hard": judged.hard, **kept, **about}
    if 300 <= answer.status < 400:
        return {"verdict": "redirected", "reason": "the next hop gets a slot of its own", **about}
    return {"verdict": "good", **about}
