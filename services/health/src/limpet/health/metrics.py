"""Every number that the health service shows to Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

BEATS = Counter("limpet_health_beats_total", "Beats heard, by what became of them.", ["outcome"])
WORKERS = Gauge("limpet_health_workers", "Live workers.", ["service"])
WORKERS_STALLED = Gauge("limpet_health_workers_stalled", "Workers whose work in hand does not move.", ["service"])
WORKERS_LOST = Counter("limpet_health_workers_lost_total", "Workers forgotten because they fell silent.", ["service"])
FLEET_STATUS = Gauge("limpet_health_fleet_status", "1 for the platform's present status, 0 for the others.", ["status"])
QUEUE_WAITING = Gauge("limpet_health_queue_waiting", "Messages that no worker has taken yet.", ["consumer"])
QUEUE_IN_HAND = Gauge("limpet_health_queue_in_hand", "Messages that were taken and not acknowledged.", ["consumer"])
QUEUE_REDELIVERED = Gauge(
    "limpet_health_queue_redelivered", "Messages in hand that had been delivered before.", ["consumer"]
)
ERRORS_STORED = Counter("limpet_health_errors_stored_total", "Errors of workers written down.")
HISTORY_ROWS = Counter("limpet_health_history_rows_total", "Rows written to the health log.")
HISTORY_FAILURES = Counter("limpet_health_history_failures_total", "Rounds of the health log that were not written.")
FORWARDED = Counter("limpet_health_forwarded_total", "Requests passed on.", ["upstream", "status_class"])
FORWARD_SECONDS = Histogram("limpet_health_forward_seconds", "Time until an upstream began to answer.", ["upstream"])
