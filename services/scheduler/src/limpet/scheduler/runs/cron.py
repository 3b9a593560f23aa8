"""When a scheduled run begins, by the clock of its own time zone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from limpet.scheduler.windows import zone


class BadCron(ValueError):
    """This text names no times."""


def next_time(cron: str, *, zone_name: str, after: datetime) -> datetime:
    """The first time after that moment. However many were missed before it, they make one run."""
    try:
        return next(CronSim(cron, after.astimezone(zone(zone_name)))).astimezone(UTC)
    except CronSimError as error:
        raise BadCron(f"is not a cron expression, which is like 30 4 * * 1-5: {error}") from None
    except StopIteration:
        raise BadCron("names no time that ever comes") from None
