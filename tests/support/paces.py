"""The pace of a domain with nothing special about it."""

from __future__ import annotations

from typing import Any

from limpet.scheduler.politeness import Pace


def make_pace(**values: Any) -> Pace:
    plain: dict[str, Any] = {
        "domain_id": 1, "name": "shop.test", "is_active": True, "crawl_delay_seconds": 0.0, "robots_delay_seconds": 0.0,
        "max_concurrent_requests": 5, "max_per_group": 5, "obey_robots": False, "robots_unread": 0, "robots_version": 0,
        "user_agent": "test", "maintenance_start": None, "maintenance_end": None, "maintenance_zone": "UTC",
        "breaker_failures": 5, "breaker_rate": 0.5, "breaker_window_seconds": 60.0, "breaker_cooldown_seconds": 60.0,
        "breaker_successes": 5, "in_flight": 0, "next_slot_at": None, "held_until": None, "held_reason": None,
        "ready_at": None, "breaker_state": "closed", "breaker_opened_at": None, "breaker_in_a_row": 0,
        "breaker_window_at": None, "breaker_good": 0, "breaker_bad": 0, "breaker_proxies": "", "breaker_reason": None,
        "bearable": float("inf"), "shrunk_at": None, "limit_now": 5,
    }  # fmt: skip
    return Pace(**{**plain, **values})
