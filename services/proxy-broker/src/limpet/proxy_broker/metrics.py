"""Everything that the broker measures."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

LEASES_GIVEN = Counter("limpet_proxy_broker_leases_given_total", "Leases given.")
LEASES_REFUSED = Counter("limpet_proxy_broker_leases_refused_total", "Wants that got no proxy.", ["reason"])
LEASES_CLOSED = Counter("limpet_proxy_broker_leases_closed_total", "Leases reported.", ["outcome"])
LEASES_EXPIRED = Counter("limpet_proxy_broker_leases_expired_total", "Leases whose holder never came back.")
COOLED = Counter("limpet_proxy_broker_cooled_total", "Proxies and pairs that were set aside.", ["scope"])
LEASE_SECONDS = Histogram("limpet_proxy_broker_lease_seconds", "Time of one Lease call.")
REPORT_SECONDS = Histogram("limpet_proxy_broker_report_seconds", "Time of one Report call.")
DOMAINS_HELD = Counter("limpet_proxy_broker_domains_held_total", "Domains held because all proxies were refused.")
TIERS_CHANGED = Counter("limpet_proxy_broker_tiers_changed_total", "Domains that went to another tier.", ["event"])
PROBES = Counter("limpet_proxy_broker_probes_total", "Proxies dialled after a cool-down.", ["outcome"])
ALERTS = Gauge("limpet_proxy_broker_alerts", "Domains and budgets for which this condition holds.", ["reason"])
PROXIES = Gauge("limpet_proxy_broker_proxies", "Proxies by state.", ["state"])
OLD_PASSWORDS = Gauge("limpet_proxy_broker_old_passwords", "Passwords that are not under the newest key.")
BUDGETS_CHANGED = Counter("limpet_proxy_broker_budgets_changed_total", "Budgets that entered this state.", ["state"])
IMPORTED = Counter("limpet_proxy_broker_imported_total", "Lines of imported lists.", ["outcome"])
