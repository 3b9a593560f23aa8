"""The scheduler: submit, dispatch, settle, reclaim, tell."""

from __future__ import annotations

from datetime import timedelta

from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.kit.beat import Pulse
from limpet.kit.blobs import Blobs
from limpet.kit.bus import open_bus
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate
from limpet.kit.ops import Readiness
from limpet.kit.pg import open_pool, watch_pool
from limpet.kit.rest import serve_rest
from limpet.kit.rpc import open_channel
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.service import run_service, serve, starting
from limpet.kit.settings import load
from limpet.kit.streams import SCHEDULER_DISCOVER, SCHEDULER_SETTLE_PAGES, SCHEDULER_SETTLE_PARSED
from limpet.scheduler.announce import Announce
from limpet.scheduler.api.app import make_api
from limpet.scheduler.blocklists import Blocklists
from limpet.scheduler.capacity import Capacity
from limpet.scheduler.census import Census
from limpet.scheduler.courier import open_courier
from limpet.scheduler.dead_letters import DeadLetters
from limpet.scheduler.discover import Discover
from limpet.scheduler.dispatch import Dispatch
from limpet.scheduler.explain import Explain
from limpet.scheduler.grant import Terms
from limpet.scheduler.notices import Notices
from limpet.scheduler.prospect import Prospect
from limpet.scheduler.reclaim import Reclaim
from limpet.scheduler.retention import Retention
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.ripen import Ripen
from limpet.scheduler.runs.calendar import Calendar
from limpet.scheduler.runs.tend import Tend
from limpet.scheduler.sampling import Sampler
from limpet.scheduler.settings import Settings
from limpet.scheduler.settle import Settle
from limpet.scheduler.signature import Signer
from limpet.scheduler.spend import Spend
from limpet.scheduler.webhooks import Webhooks

SETTLE_SLOTS = 16
# Statements are planned once, not every time: planning takes as long as running. The plan may be made while the tables are
# still empty, so it must use the indexes whatever their size is then.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


async def work(settings: Settings, readiness: Readiness) -> None:
    dsn = settings.pg_dsn.get_secret_value()
    async with (
        open_pool(dsn, size=12, readiness=readiness, settings=PLANS) as pool,
        open_bus(
            settings.nats_url,
            name="scheduler",
            replicas=settings.stream_replicas,
            readiness=readiness,
            ca_file=settings.nats_ca_file,
        ) as bus,
        open_courier(settings.guard) as courier,
        open_channel(settings.broker_address) as channel,
    ):
        await migrate(dsn, "limpet.scheduler")
        capacity = Capacity(floor=settings.window_floor)
        terms = Terms(
            lead=timedelta(seconds=settings.dispatch_lead_seconds),
            per_domain=settings.dispatch_per_domain,
            domains=settings.dispatch_domains,
            patience=timedelta(seconds=settings.order_patience_seconds),
            timeout=timedelta(seconds=settings.fetch_timeout_seconds),
            margin=timedelta(seconds=settings.lease_margin_seconds),
        )
        dispatch = Dispatch(
            pool,
            bus,
            terms,
            tick=settings.dispatch_tick_seconds,
            share=settings.dispatch_share,
            capacity=capacity,
            sampler=Sampler(settings.traces_per_second),
        )
        discover = Discover(pool)
        parse_lease = timedelta(seconds=settings.parse_lease_seconds)
        policy = RetryPolicy(retry_base=settings.retry_base_seconds, block_base=settings.block_base_seconds)
        bodies = Blobs.open(settings.page_store)
        settle = Settle(pool, bodies, discover, policy, parse_lease, freed=dispatch.wake)
        prospect = Prospect(pool, every=settings.discover_tick_seconds, freed=dispatch.wake)
        reclaim = Reclaim(pool, bus, parse_lease, every=1.0, freed=dispatch.wake)
        ripen = Ripen(pool, every=0.25, freed=dispatch.wake, parse_lease=parse_lease)
        announce = Announce(pool, bus)
        notices = Notices(pool)
        tend = Tend(pool, bus, every=settings.run_tick_seconds, freed=dispatch.wake)
        calendar = Calendar(pool, every=settings.run_tick_seconds, freed=dispatch.wake)
        blocklists = Blocklists(ProxyServiceStub(channel) if settings.broker_address else None)
        signer = Signer(settings.webhook_secret.get_secret_value().encode())
        webhooks = Webhooks(pool, courier, signer)
        explainer = Explain(
            pool,
            lead=settings.dispatch_lead_seconds,
            patience=settings.order_patience_seconds,
            capacity=capacity,
        )
        retention = Retention(
            pool,
            keep={
                "attempts": timedelta(days=settings.retention_attempts_days),
                "audit": timedelta(days=settings.retention_audit_days),
            },
            runs_kept=timedelta(days=settings.retention_runs_days),
        )
        await bus.subscribe("beat.fetcher", capacity.on_beat)
        await bus.subscribe("clock.read", notices.on_clock_read, queue="scheduler")
        await bus.subscribe("started.fetch", notices.on_fetch_started, queue="scheduler")
        await bus.subscribe("started.parse", notices.on_parse_started, queue="scheduler")
        pulse = Pulse(bus, service="scheduler", worker_id=settings.worker_id)
        pulse.tasks_by_status = Census(pool).count
        await serve(
            readiness=readiness,
            rest=serve_rest(
                make_api(
                    pool,
                    bus,
                    settings.keys,
                    submitted=dispatch.wake,
                    changed=announce.wake,
                    signer=signer,
                    explainer=explainer,
                    ended=tend.wake,
                    blocklists=blocklists,
                ),
                host=settings.http_host,
                port=settings.http_port,
            ),
            database=watch_pool(pool, readiness),
            selfcheck=Selfcheck(bus, pool, readiness, after=settings.staleness_threshold_seconds).run(),
            pulse=pulse.run(),
            settle_pages=bus.consume(SCHEDULER_SETTLE_PAGES, settle.on_facts, slots=SETTLE_SLOTS),
            settle_parsed=bus.consume(SCHEDULER_SETTLE_PARSED, settle.on_facts, slots=SETTLE_SLOTS),
            discover=bus.consume(SCHEDULER_DISCOVER, discover.on_links_discovered, slots=2),
            left_out=discover.run(),
            prospect=prospect.run(),
            spend=Spend(pool).run(),
            dead_letters=DeadLetters(bus).run(),
            reclaim=reclaim.run(),
            ripen=ripen.run(),
            announce=announce.run(),
            dispatch=dispatch.run(),
            webhooks=webhooks.run(),
            runs=tend.run(),
            run_calendar=calendar.run(),
            retention=retention.run(),
        )


def run() -> None:
    settings = load(Settings)
    setup_logging("scheduler", settings.log_level)
    readiness = Readiness()
    run_service(
        starting(readiness, host=settings.ops_host, port=settings.ops_port, main=lambda: work(settings, readiness))
    )


if __name__ == "__main__":
    run()
