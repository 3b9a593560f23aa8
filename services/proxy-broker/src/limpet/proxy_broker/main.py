"""The broker's recipe: open things in order, hand them over, serve."""

from __future__ import annotations

from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import add_ProxyServiceServicer_to_server
from limpet.kit.beat import Pulse
from limpet.kit.bus import open_bus
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate
from limpet.kit.ops import Readiness
from limpet.kit.pg import open_pool, watch_pool
from limpet.kit.rest import serve_rest
from limpet.kit.rpc import serve_rpc
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.service import run_service, serve, starting
from limpet.kit.settings import load
from limpet.kit.streams import BROKER_DOMAINS
from limpet.proxy_broker import server
from limpet.proxy_broker.alerts import Alerts, Limits
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api.app import make_api
from limpet.proxy_broker.blame import Threshold
from limpet.proxy_broker.domain_facts import DomainFacts
from limpet.proxy_broker.expire import Expire
from limpet.proxy_broker.lease import Lease
from limpet.proxy_broker.probe import Probe
from limpet.proxy_broker.refusal import Patience
from limpet.proxy_broker.report import Report
from limpet.proxy_broker.rollup import RollUp
from limpet.proxy_broker.settings import Settings
from limpet.proxy_broker.tier import TierRule
from limpet.proxy_broker.vault import Vault
from limpet.proxy_broker.wave import WaveRule

SERVICE = "proxy-broker"
# Statements are planned once. Few calls work at a time: more would mostly wait for the locks of one another.
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
CALLS_AT_ONCE = 3


async def work(settings: Settings, readiness: Readiness) -> None:
    dsn = settings.pg_dsn.get_secret_value()
    vault = Vault(settings.secret_keys.get_secret_value())
    longest = settings.cooldown_max
    proxy = Threshold(failures=settings.proxy_failures, cooldown=settings.proxy_cooldown, cooldown_max=longest)
    pair = Threshold(failures=settings.pair_failures, cooldown=settings.pair_cooldown, cooldown_max=longest)
    async with (
        open_pool(dsn, readiness=readiness) as pool,
        open_pool(dsn, size=CALLS_AT_ONCE, settings=PLANS) as call_pool,
        open_bus(
            settings.nats_url,
            name=settings.worker_id,
            replicas=settings.stream_replicas,
            readiness=readiness,
            ca_file=settings.nats_ca_file,
        ) as bus,
    ):
        await migrate(dsn, "limpet.proxy_broker")
        announce = Announce(pool, bus)
        pulse = Pulse(bus, service=SERVICE, worker_id=settings.worker_id)
        calls = server.Server(
            pool=pool,
            lease=Lease(pool=call_pool, vault=vault, proxy=proxy, pair=pair, patience=Patience()),
            report=Report(
                pool=call_pool,
                announce=announce,
                proxy=proxy,
                pair=pair,
                block_cooldown=settings.block_cooldown,
                waves=WaveRule(
                    proxies=settings.wave_proxies,
                    window=settings.wave_window,
                    hold=settings.domain_hold,
                    hold_max=longest,
                ),
                tiers=TierRule(probe_after=settings.tier_probe_after),
            ),
            pulse=pulse,
            ttl=settings.lease_ttl,
            ttl_max=settings.lease_ttl_max,
        )
        limits = Limits(
            least_proxies=settings.alert_least_proxies,
            failure_share=settings.alert_failure_share,
            least_uses=settings.alert_least_uses,
        )
        watch = Alerts(pool=pool, vault=vault, limits=limits, every=settings.alerts_every)
        api = make_api(keys=settings.keys, pool=pool, vault=vault, announce=announce, watch=watch)
        await serve(
            readiness=readiness,
            database=watch_pool(pool, readiness),
            selfcheck=Selfcheck(bus, pool, readiness, after=settings.staleness_threshold_seconds).run(),
            beat=pulse.run(),
            announce=announce.run(),
            expire=Expire(pool=pool, every=settings.expire_every).run(),
            probe=Probe(
                pool=pool,
                vault=vault,
                announce=announce,
                threshold=proxy,
                target=settings.probe_target,
                timeout=settings.probe_timeout,
                every=settings.expire_every,
            ).run(),
            roll_up=RollUp(pool=pool, every=settings.rollup_every, keep=settings.usage_retention).run(),
            alerts=watch.run(),
            domains=bus.consume(BROKER_DOMAINS, DomainFacts(pool).on_domain_changed, slots=8),
            rest=serve_rest(api, host=settings.http_host, port=settings.http_port),
            rpc=serve_rpc(
                lambda grpc_server: add_ProxyServiceServicer_to_server(calls, grpc_server),
                names=[server.NAME],
                host=settings.grpc_host,
                port=settings.grpc_port,
            ),
        )


async def main() -> None:
    settings = load(Settings)
    setup_logging(service=SERVICE, level=settings.log_level)
    readiness = Readiness()
    await starting(readiness, host=settings.ops_host, port=settings.ops_port, main=lambda: work(settings, readiness))


def run() -> None:
    run_service(main())


if __name__ == "__main__":
    run()
