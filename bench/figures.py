"""What one run cost, what that is per page, and how two of them compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Figures:
    """One crawler over the whole list once. `cpu` is without start-up, `startup_cpu` is what start-up took."""

    pages: int
    seconds: float
    cpu: float
    startup_cpu: float
    peak_mib: float
    fetched: int
    items: int
    by_command: dict[str, float] = field(default_factory=dict)
    # Pages that make no item: lists and the front page, where links are followed.
    without_item: int = 0

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    @property
    def cpu_ms(self) -> float:
        return self.cpu / self.pages * 1000

    @property
    def cpu_ms_with_startup(self) -> float:
        return (self.cpu + self.startup_cpu) / self.pages * 1000

    @property
    def complete(self) -> bool:
        return self.fetched == self.pages and self.items + self.without_item == self.pages


COLUMNS: dict[str, tuple[Callable[[Figures], float], str]] = {
    "pages/s": (lambda run: run.rate, "10.1f"),
    "CPU-ms/page": (lambda run: run.cpu_ms, "12.3f"),
    "with start-up": (lambda run: run.cpu_ms_with_startup, "14.3f"),
    "start-up CPU-s": (lambda run: run.startup_cpu, "15.2f"),
    "peak MiB": (lambda run: run.peak_mib, "9.0f"),
    "fetched": (lambda run: float(run.fetched), "8.0f"),
    "items": (lambda run: float(run.items), "8.0f"),
}


def medians(runs: Sequence[Figures]) -> dict[str, float]:
    return {name: median(value(run) for run in runs) for name, (value, _) in COLUMNS.items()}


def table(rounds: dict[str, list[Figures]]) -> str:
    """A line per crawler (medians over the rounds), and how many times less Limpet takes where both ran."""
    widths = {name: int(shape.split(".")[0]) for name, (_, shape) in COLUMNS.items()}
    lines = ["          " + " ".join(f"{name:>{widths[name]}}" for name in COLUMNS)]
    for crawler, runs in rounds.items():
        values = medians(runs)
        lines.append(f"{crawler:<10}" + " ".join(f"{values[name]:{shape}}" for name, (_, shape) in COLUMNS.items()))
    if {"limpet", "scrapy"} <= rounds.keys():
        limpet, scrapy = medians(rounds["limpet"]), medians(rounds["scrapy"])
        lines += [
            "",
            f"Limpet: {limpet['pages/s'] / scrapy['pages/s']:.2f} times Scrapy's pages/s, "
            f"{scrapy['CPU-ms/page'] / limpet['CPU-ms/page']:.2f} times less CPU per page "
            f"({scrapy['with start-up'] / limpet['with start-up']:.2f} with start-up), "
            f"{limpet['peak MiB'] / scrapy['peak MiB']:.2f} times its memory.",
        ]
    return "\n".join(lines)
