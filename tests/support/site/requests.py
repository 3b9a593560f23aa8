"""What a site saw: one record per request, and the questions that tests ask about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Record:
    """One request as the site saw it: `started` and `ended` on its monotonic clock, `started_at` on the wall's."""

    path: str
    host: str
    started_at: float
    started: float
    ended: float
    status: int
    peer: str
    agent: str


class RequestLog(list[Record]):
    """All requests of a site, in the order in which they ended."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what a site process has written so far. A last line that is still being written is left out."""
        lines = path.read_bytes().split(b"\n")[:-1]
        return cls(Record(**json.loads(line)) for line in lines)

    def hosts(self) -> set[str]:
        return {record.host for record in self}

    def paths(self) -> list[str]:
        return [record.path for record in sorted(self, key=_started)]

    def of(self, host: str | None = None, *, path: str | None = None, prefix: str = "") -> RequestLog:
        """The requests to one host, to one path, or to the paths below a prefix."""
        return RequestLog(
            record
            for record in self
            if (host is None or record.host == host)
            and (path is None or record.path == path)
            and record.path.startswith(prefix)
        )

    def gaps(self, host: str | None = None) -> list[float]:
        """Seconds between neighbouring request starts. Without a host: within each host, never across two."""
        return [gap for name in self._chosen(host) for gap in self._gaps(name)]

    def shortest_gap(self, host: str | None = None) -> float:
        return min(self.gaps(host), default=float("inf"))

    def short_gaps(self, delay: float, *, tolerance: float = 0.0, host: str | None = None) -> list[float]:
        """The gaps that fall short of the promised delay by more than the tolerance."""
        return [gap for gap in self.gaps(host) if gap < delay - tolerance]

    def max_concurrency(self, host: str | None = None) -> int:
        """The most requests that were open at one moment, at the host or at all of them together."""
        records = self if host is None else self.of(host)
        # At equal times the end comes first: one that ended is not open together with one that starts.
        moments = sorted([(record.started, 1) for record in records] + [(record.ended, -1) for record in records])
        most = now = 0
        for _, change in moments:
            now += change
            most = max(most, now)
        return most

    def rate(self, host: str | None = None) -> float:
        """Request starts per second between the first start and the last one."""
        starts = sorted(record.started for record in (self if host is None else self.of(host)))
        return (len(starts) - 1) / (starts[-1] - starts[0]) if len(starts) > 1 and starts[-1] > starts[0] else 0.0

    def _chosen(self, host: str | None) -> list[str]:
        return sorted(self.hosts()) if host is None else [host]

    def _gaps(self, host: str) -> Iterator[float]:
        starts = sorted(record.started for record in self if record.host == host)
        return (later - earlier for earlier, later in pairwise(starts))


def as_line(record: Record) -> bytes:
    return json.dumps(asdict(record)).encode() + b"\n"


def _started(record: Record) -> float:
    return record.started
