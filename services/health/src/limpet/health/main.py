"""The health service: watch the fleet, judge it, be its front door."""

from __future__ import annotations

from limpet.health.api import add_routes
from limpet.health.board import Board
from limpet.health.describe import add_description
from limpet.health.fleet import Fleet
from limpet.health.front_door import FrontDoor, open_session
from limpet.health.history import History
from limpet.health.queues import Queues
from limpet.health.routes import Upstream
from limpet.health.settings import Settings
from limpet.health.watch import BEATS, Watch
from limpet.kit.beat import Pulse
from limpet.kit.bus import open_bus
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate
from limpet.kit.ops import Readiness
from limpet.kit.pg import open_pool, watch_pool
from limpet.kit.rest import make_app, serve_rest
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.service import run_service, serve, starting
from limpet.kit.settings import load
from limpet.kit.streams import HEALTH_ERRORS


async def main() -> None:
    settings = load(Settings)
    setup_logging(service="health", level=settings.log_level)
    readiness = Readiness()
    await starting(
        readiness, host=settings.ops_host, port=settings.ops_port, main=lambda: work(settings, readiness=readiness)
    )


async def work(settings: Settings, *, readiness: Readiness) -> None:
    dsn = settings.pg_dsn.get_secret_value()
    addresses: dict[Upstream, str] = {
        "scheduler": settings.scheduler_url,
        "parser": settings.parser_url,
        "proxy-broker": settings.proxy_broker_url,
    }
    async with (
        open_pool(dsn, size=5, readiness=readiness) as pool,
        open_bus(
            settings.nats_url,
            name="health",
            replicas=settings.stream_replicas,
            readiness=readiness,
            ca_file=settings.nats_ca_file,
        ) as bus,
        open_session(silence_seconds=settings.upstream_timeout_seconds) as session,
    ):
        await migrate(dsn, "limpet.health")
        fleet = Fleet(limit=settings.fleet_limit, forget_after_seconds=settings.forget_after_seconds)
        watch = Watch(pool, fleet)
        board = Board(fleet, every_seconds=settings.refresh_seconds)
        history = History(pool, fleet, every=settings.history_every, kept=settings.history_kept)
        app = make_app("Limpet health", settings.keys)
        add_routes(app, board)
        add_description(app, session=session, addresses=addresses)
        app.add_middleware(FrontDoor, session=session, addresses=addresses, max_body=settings.max_body_bytes)
        await bus.subscribe(BEATS, watch.on_beat)
        await serve(
            readiness=readiness,
            pool=watch_pool(pool, readiness),
            selfcheck=Selfcheck(bus, pool, readiness, after=settings.staleness_threshold_seconds).run(),
            pulse=Pulse(bus, service="health", worker_id=settings.worker_id).run(),
            errors=bus.consume(HEALTH_ERRORS, watch.on_error_occurred, slots=4),
            history=history.run(),
            board=board.run(),
            queues=Queues(bus).run(),
            rest=serve_rest(app, host=settings.http_host, port=settings.http_port),
        )


def run() -> None:
    run_service(main())


if __name__ == "__main__":
    run()
