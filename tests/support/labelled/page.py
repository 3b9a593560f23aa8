"""One labelled answer, and the pieces that pages are made of."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Label = Literal["good", "blocked", "needs_render", "garbage"]
_WORDS = [
    "boots",
    "leather",
    "autumn",
    "valley",
    "market",
    "bridge",
    "harbour",
    "garden",
    "kitchen",
    "winter",
    "paper",
    "window",
    "station",
    "river",
    "letter",
    "morning",
    "council",
    "report",
    "figures",
    "season",
    "teacher",
    "engine",
    "cotton",
    "village",
    "museum",
    "orchard",
    "painter",
    "ticket",
    "journey",
    "island",
    "summer",
]


@dataclass(frozen=True)
class Labelled:
    name: str
    label: Label
    body: bytes
    status: int = 200
    content_type: str = "text/html"
    vendor: str = ""


def document(title: str, inner: str, *, head: str = "") -> bytes:
    page = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}</head>'
    return f"{page}<body>{inner}</body></html>".encode()


def prose(seed: int, *, words: int) -> str:
    """Paragraphs of sentences, the same for the same seed."""
    rng = Random(seed)
    said = [rng.choice(_WORDS) for _ in range(words)]
    sentences = [" ".join(said[at : at + 12]).capitalize() + "." for at in range(0, words, 12)]
    return "".join(f"<p>{' '.join(sentences[at : at + 4])}</p>" for at in range(0, len(sentences), 4))


def menu(seed: int, *, links: int = 12) -> str:
    rng = Random(seed)
    return "<nav>" + "".join(f'<a href="/c/{n}">{rng.choice(_WORDS)}</a> ' for n in range(links)) + "</nav>"
