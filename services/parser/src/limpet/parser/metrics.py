"""What the parser counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

PAGES = Counter("limpet_parser_pages_total", "Pages parsed, by how it ended.", ["outcome"])
ITEMS = Counter("limpet_parser_items_total", "Items found on pages.")
LINKS = Counter("limpet_parser_links_total", "Links found on pages.")
PARSE_SECONDS = Histogram(
    "limpet_parser_parse_seconds",
    "Time to parse one page, as the mean of its message.",
    buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0),
)
WORKERS = Gauge("limpet_parser_workers", "Processes that read pages now.")
WORKER_ENDS = Counter("limpet_parser_worker_ends_total", "Processes that were replaced, by why.", ["reason"])
RECIPES = Gauge("limpet_parser_recipes", "Recipe files, by whether their newest version is in use.", ["state"])
REPARSED = Counter(
    "limpet_parser_reparsed_pages_total", "Stored pages read again by jobs, by how it ended.", ["outcome"]
)
FIELDS_DROPPED = Gauge("limpet_parser_fields_dropped", "Fields that are filled far less often than they used to be.")
