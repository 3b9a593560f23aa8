"""What the fetcher counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SETTLED = Counter("limpet_fetcher_orders_total", "Orders settled, by how they ended.", ["outcome"])
REDELIVERED = Counter("limpet_fetcher_redelivered_total", "Orders dropped because they had been handed out before.")
BODY_BYTES = Counter("limpet_fetcher_body_bytes_total", "Decoded bytes of the pages that were stored.")
RESPONSE_SECONDS = Histogram(
    "limpet_fetcher_response_seconds",
    "Time from the start of a request to the last byte of its answer.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
RETRIED = Counter("limpet_fetcher_retries_total", "Orders tried again through another proxy, inside the same attempt.")
IN_HAND = Gauge("limpet_fetcher_in_hand", "Orders in hand.")
PAUSED = Gauge("limpet_fetcher_paused", "1 while no orders are taken, by what keeps them off.", ["reason"])
MEMORY_BYTES = Gauge("limpet_fetcher_memory_bytes", "Memory in use that cannot be reclaimed.")
CLOCK_ERROR = Gauge("limpet_fetcher_clock_error_seconds", "Known bound of the error against the scheduler's clock.")
LEASES = Counter("limpet_fetcher_leases_total", "Leases that orders got, by where from: broker or stock.", ["source"])
LEASES_KEPT = Gauge("limpet_fetcher_leases_kept", "Leases that were given back unused and wait for another order.")
REPORTS_DROPPED = Counter(
    "limpet_fetcher_reports_dropped_total",
    "Reports about leases that the broker never got: expired meanwhile, no room, or the process stopped.",
    ["reason"],
)
PRUNED = Counter(
    "limpet_fetcher_pruned_total",
    "What was old: responses_pruned, packs_condemned, and packs_dropped from the page store.",
    ["event"],
)
