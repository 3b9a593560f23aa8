"""The parser process: open things in order, hand them over, serve."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from limpet.contracts.events.v1.parse_pb2 import ParseStarted
from limpet.kit.beat import Pulse
from limpet.kit.blobs import Blobs
from limpet.kit.bus import open_bus
from limpet.kit.errors import CannotRecover
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate
from limpet.kit.ops import Readiness
from limpet.kit.pg import LOST, open_pool, watch_pool
from limpet.kit.rest import make_app, serve_rest
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.service import run_service, serve, starting
from limpet.kit.settings import EXIT_BAD_CONFIGURATION, load
from limpet.kit.streams import PARSER
from limpet.kit.underway import Underway
from limpet.parser.api.app import routers
from limpet.parser.intake import Intake
from limpet.parser.parse import Parse
from limpet.parser.parsers.registry import BadParser
from limpet.parser.quality import Quality
from limpet.parser.recipes.folder import RecipeFolder
from limpet.parser.reparse import Reparse
from limpet.parser.retention import Retention
from limpet.parser.settings import Settings
from limpet.parser.workers.readers import open_readers


async def main(settings: Settings, readiness: Readiness) -> None:
    try:
        recipes = RecipeFolder(settings.recipes_dir)
    except BadParser as error:
        raise CannotRecover(str(error), EXIT_BAD_CONFIGURATION) from error
    dsn = settings.pg_dsn.get_secret_value()
    async with (
        open_pool(dsn, readiness=readiness) as pool,
        open_bus(
            settings.nats_url,
            name="parser",
            replicas=settings.stream_replicas,
            readiness=readiness,
            ca_file=settings.nats_ca_file,
        ) as bus,
        open_readers(
            Blobs.open(settings.page_store),
            processes=settings.processes,
            spares=settings.parse_spare_processes,
            limits=settings.limits,
            recipes=recipes,
        ) as readers,
    ):
        await migrate(dsn, "limpet.parser")
        pulse = Pulse(bus, service="parser", worker_id=settings.worker_id, capacity=settings.parse_slots)
        underway = Underway(bus, ParseStarted)
        quality = Quality(pool, bus)
        days = settings.retention_history_days
        retention = Retention(
            pool,
            history=timedelta(days=days) if days else None,
            quality=timedelta(days=settings.retention_quality_days),
        )
        parse = Parse(
            pool=pool,
            bus=bus,
            readers=readers,
            pulse=pulse,
            underway=underway,
            quality=quality,
            worker_id=settings.worker_id,
        )
        intake = Intake(parse.on_delivery, slots=settings.parse_slots, late=lambda: readers.waiting_for_late)
        pulse.in_hand = lambda: intake.in_hand
        readers.on_late = bus.look_again
        app = make_app("Limpet parser", settings.keys)
        for router in routers(pool, recipes=recipes):
            app.include_router(router)
        await serve(
            readiness=readiness,
            drain=lambda: drained(intake, quality, seconds=settings.drain_seconds),
            watch=watch_pool(pool, readiness),
            selfcheck=Selfcheck(bus, pool, readiness, after=settings.staleness_threshold_seconds).run(),
            pulse=pulse.run(),
            underway=underway.run(),
            readers=readers.run(),
            recipes=recipes.run(),
            reparse=Reparse(pool, readers.readings).run(),
            quality=quality.run(),
            retention=retention.run(),
            rest=serve_rest(app, host=settings.http_host, port=settings.http_port),
            parse=bus.consume(PARSER, intake.take, slots=settings.parse_slots, free=intake.free),
        )


async def drained(intake: Intake, quality: Quality, *, seconds: float) -> None:
    """What is in hand finishes, and what was counted of it is written."""
    await intake.drain(seconds)
    with contextlib.suppress(*LOST):
        await quality.flush()


def run() -> None:
    settings = load(Settings)
    setup_logging("parser", settings.log_level)
    readiness = Readiness()
    run_service(
        starting(readiness, host=settings.ops_host, port=settings.ops_port, main=lambda: main(settings, readiness))
    )


if __name__ == "__main__":
    run()
