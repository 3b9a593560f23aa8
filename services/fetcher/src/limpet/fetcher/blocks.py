"""Is this HTML a page, or a wall in front of it? Signals have points; the verdict keeps its evidence. Pure.

Words alone never condemn a page: an article about CAPTCHAs has the words, and a great deal of text besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from limpet.fetcher.shape import Shape, shape_of
from limpet.fetcher.signatures import Find, Signatures, Tier, known_signatures

# Walls are small and tell what they are early; the rest of a large page is not read.
SCAN_BYTES: Final = 256 << 10
# Below this every page is looked at; above, only one with a signal or without paragraphs.
SMALL_BYTES: Final = 8 << 10
# Where a page has paragraphs early, a wall's signals would stand there as well: looking through all of it for them cost a tenth of a fetch.
EARLY_BYTES: Final = 16 << 10
THRESHOLD: Final = 80
POINTS: Final[dict[Tier, int]] = {"markup": 70, "challenge": 40, "denied": 40, "widget": 25}
# Words that only one vendor's pages use.
OWN_WORDS: Final = 10
WORDS: Final = ("challenge", "denied")
IN_TITLE: Final = 30
EACH_MORE, MOST_MORE = 10, 2
SHORT_TEXT, FEW_WORDS = 600, 1500
SHORT, BRIEF, FULL, FORM, NOTHING_ELSE = 30, 10, -30, -40, 30
# Less visible text than that is next to nothing.
BARE_TEXT: Final = 80

Kind = Literal["blocked", "needs_render"]


@dataclass(frozen=True, slots=True)
class Wall:
    """Why this is not a page."""

    kind: Kind
    # A refusal in so many words, not a challenge that could be passed.
    hard: bool
    score: int
    vendor: str
    signals: tuple[str, ...]

    @property
    def reason(self) -> str:
        by = f" by {self.vendor}" if self.vendor else ""
        what = (
            "a page that needs a browser" if self.kind == "needs_render" else "refused" if self.hard else "challenged"
        )
        return f"{what}{by} (score {self.score}: {', '.join(self.signals)})"


def wall_in(body: bytes, *, ignored: frozenset[str] = frozenset(), signatures: Signatures | None = None) -> Wall | None:
    """None means that nothing speaks against the page. `ignored` names signatures that this site's good pages have."""
    known = signatures or known_signatures()
    early = body[:EARLY_BYTES]
    finds = [find for find in known.find(early) if find.signature.name not in ignored]
    if not finds and len(body) > SMALL_BYTES and _has_paragraphs(early):
        return None
    if len(body) > EARLY_BYTES:
        body = body[:SCAN_BYTES]
        finds = [find for find in known.find(body) if find.signature.name not in ignored]
    shape = shape_of(body)
    if shape.long:
        return None
    # Words count where people see them, not in scripts and attributes; only a script's complaint may stand in <noscript>.
    seen = [find for find in known.find(f"{shape.title} {shape.text}".encode()) if find.signature.name not in ignored]
    strong = [find for find in finds if find.signature.tier in ("markup", "widget")]
    words = [find for find in seen if find.signature.tier in WORDS]
    if strong or words:
        titled = {find.signature.name for find in known.find(shape.title.encode())}
        wall = _weigh(_once([*strong, *words]), shape, titled=titled)
        if wall.score >= THRESHOLD:
            return wall
    complaints = [find for find in [*seen, *finds] if find.signature.tier == "script"]
    return _bare(shape, complaints[0] if complaints else None, told=any(f.signature.tier == "script" for f in seen))


def _weigh(finds: list[Find], shape: Shape, *, titled: set[str]) -> Wall:
    tiers = {find.signature.tier for find in finds}
    signals = [f"{find.signature.name} {find.pattern!r}" for find in finds]
    score = max(map(_points, finds)) + EACH_MORE * min(len(finds) - 1, MOST_MORE)
    if any(find.signature.name in titled and find.signature.tier in WORDS for find in finds):
        score += IN_TITLE
        signals.append("in the title")
    score += SHORT if len(shape.text) <= SHORT_TEXT else BRIEF if len(shape.text) <= FEW_WORDS else FULL
    signals.append(f"{len(shape.text)} characters of text")
    if len(shape.text) <= BARE_TEXT and shape.has_script and not shape.fields:
        score += NOTHING_ELSE
    if shape.is_form and "markup" not in tiers:
        score += FORM
        signals.append("a form to fill in")
    vendor = next((find.signature.vendor for find in finds if find.signature.vendor), "")
    hard = "denied" in tiers and not tiers & {"markup", "challenge", "widget"}
    return Wall("blocked", hard, score, vendor, tuple(signals))


def _bare(shape: Shape, complaint: Find | None, *, told: bool) -> Wall | None:
    """Scripts, and hardly a word besides: only a browser can show this page."""
    if not shape.has_script or shape.has_media or shape.is_form:
        return None
    if len(shape.text) > (SHORT_TEXT if told else BARE_TEXT if complaint else 0):
        return None
    signal = f"{complaint.signature.name} {complaint.pattern!r}" if complaint else "nothing but scripts"
    return Wall("needs_render", False, THRESHOLD, "", (signal, f"{len(shape.text)} characters of text"))


def _has_paragraphs(body: bytes) -> bool:
    return b"<p" in body or b"<P" in body


def _points(find: Find) -> int:
    own = find.signature.vendor and find.signature.tier in WORDS
    return POINTS[find.signature.tier] + (OWN_WORDS if own else 0)


def _once(finds: list[Find]) -> list[Find]:
    """One find of each vendor's signature: a challenge with five of its own marks is one challenge."""
    kept = {find.signature.name if find.signature.vendor else find.pattern: find for find in reversed(finds)}
    return list(kept.values())[::-1]
