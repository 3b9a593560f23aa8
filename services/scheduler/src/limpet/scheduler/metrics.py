"""Everything that the scheduler counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ORDERS_SENT = Counter("limpet_scheduler_orders_sent_total", "Orders sent to fetchers.")
LAST_ROUND = Gauge("limpet_scheduler_last_round_timestamp_seconds", "When the last round of permits ended.")
DISPATCH_SECONDS = Histogram("limpet_scheduler_dispatch_seconds", "Time for one round of permits.")
FACTS_SETTLED = Counter(
    "limpet_scheduler_facts_total", "Facts taken, by kind and whether they changed anything.", ["event", "outcome"]
)
SETTLE_SECONDS = Histogram("limpet_scheduler_settle_seconds", "Time to settle one batch of facts.")
PERMITS_EXPIRED = Counter("limpet_scheduler_permits_expired_total", "Permits that nobody reported on in time.")
PARSES_ASKED = Counter("limpet_scheduler_parses_asked_total", "Pages that the parser was asked for again.")
TASKS_ADDED = Counter("limpet_scheduler_tasks_added_total", "New tasks, by where they came from.", ["source"])
WEBHOOKS = Counter("limpet_scheduler_webhooks_total", "Webhooks that were tried, by what came of it.", ["outcome"])
TASKS = Gauge("limpet_scheduler_tasks", "Tasks by status.", ["state"])
DOMAINS = Gauge(
    "limpet_scheduler_domains", "Active domains; those whose breaker is so; open for 30 minutes.", ["state"]
)
TASKS_RIPENED = Counter("limpet_scheduler_tasks_ripened_total", "Tasks whose waiting time was over.")
BREAKERS_OPENED = Counter("limpet_scheduler_breakers_opened_total", "Times that a domain's breaker opened.")
DEAD_LETTERS = Gauge("limpet_scheduler_dead_letters", "Messages that no consumer could handle, of the whole platform.")
RUNS = Counter("limpet_scheduler_runs_total", "Runs that ended, by how.", ["result"])
LINKS_LEFT_OUT = Counter(
    "limpet_scheduler_links_left_out_total", "Links that were not followed, by reason.", ["reason"]
)
PROBES = Counter(
    "limpet_scheduler_probes_total", "Addresses that may be archives, by what came of asking.", ["outcome"]
)
