"""A broker with all it needs, as processes of their own: PostgreSQL, NATS, brokers; and a pool of proxies in its tables."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from bench.measure import cpu_seconds
from bench.running import BenchError, started
from bench.scheduler.server import Server, server
from limpet.cli.local.nats import Nats
from limpet.kit.migrate import migrate
from limpet.kit.pg import open_pool
from limpet.proxy_broker.vault import Vault
from tests.support.sealing import sealing_key

PROXIES = 200
OWN_DOMAINS, SHARING_DOMAINS = 4, 6
START_SECONDS = 60.0

# Half of the proxies are in the pools of four domains, the other half serve everybody else. A limit is set, so that the
# hour is reckoned with; it is never reached.
PROXIES_SQL = """
    INSERT INTO proxies (protocol, host, port, username, provider, country_code, max_requests_per_hour,
                         max_concurrent_leases)
    SELECT 'http', 'proxy-' || n || '.bench', 8080, 'user-' || n, 'provider-' || n % 5,
           (ARRAY['DE', 'US', 'FR', 'NL'])[n % 4 + 1], 10000000, 100
      FROM generate_series(1, $1) AS n
    RETURNING proxy_id
"""
PAIRS_SQL = """
    INSERT INTO pairs (domain, proxy_id, assigned)
    SELECT 'own-' || rank % $1 || '.bench', proxy_id, true
      FROM (SELECT proxy_id, row_number() OVER (ORDER BY proxy_id) AS rank FROM proxies) AS counted
     WHERE rank <= $2
"""
PASSWORD_SQL = "UPDATE proxies SET password_sealed = $2 WHERE proxy_id = $1"


@dataclass(frozen=True)
class Fleet:
    """Addresses of the brokers, and what each kind of process has used so far."""

    addresses: tuple[str, ...]
    postgres: Server
    brokers: tuple[int, ...]

    def cpu_seconds(self) -> dict[str, float]:
        return {"broker": sum(map(cpu_seconds, self.brokers)), "PostgreSQL": self.postgres.cpu_seconds()}


def domains() -> list[str]:
    return [f"own-{n}.bench" for n in range(OWN_DOMAINS)] + [f"any-{n}.bench" for n in range(SHARING_DOMAINS)]


@contextmanager
def fleet(*, brokers: int) -> Iterator[Fleet]:
    key = sealing_key()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="limpet-bench-broker-")))
        postgres = stack.enter_context(server())
        postgres.postgres.create_databases(("broker",))
        dsn = postgres.postgres.dsn("broker")
        asyncio.run(_fill(dsn, Vault(key)))
        nats = Nats.in_folder(folder, port=_free_port())
        command = nats.command(folder / "nats.log")
        command.prepare()
        stack.enter_context(started(command.argv, log=folder / "nats.log", env=command.env))
        pids, addresses = [], []
        for number in range(brokers):
            ops, rpc = _free_port(), _free_port()
            settings = {
                "LIMPET_PG_DSN": dsn,
                "LIMPET_NATS_URL": nats.url,
                "LIMPET_OPS_PORT": str(ops),
                "LIMPET_HTTP_PORT": str(_free_port()),
                "LIMPET_GRPC_PORT": str(rpc),
                "LIMPET_SECRET_KEYS": key,
                "LIMPET_LOG_LEVEL": "WARNING",
                "LIMPET_API_KEYS": f"read:{hashlib.sha256(key.encode()).hexdigest()}",
            }
            log = folder / f"broker-{number}.log"
            argv = (sys.executable, "-m", "limpet.proxy_broker.main")
            running = stack.enter_context(started(argv, log=log, env=settings))
            _wait_ready(f"http://127.0.0.1:{ops}/readyz", log)
            pids.append(running.pid)
            addresses.append(f"127.0.0.1:{rpc}")
        yield Fleet(tuple(addresses), postgres, tuple(pids))


async def _fill(dsn: str, vault: Vault) -> None:
    await migrate(dsn, "limpet.proxy_broker")
    async with open_pool(dsn, size=1) as pool:
        added = [row["proxy_id"] for row in await pool.fetch(PROXIES_SQL, PROXIES)]
        sealed = [(proxy_id, vault.seal(f"password-{proxy_id}", proxy_id=proxy_id)) for proxy_id in added]
        await pool.executemany(PASSWORD_SQL, sealed)
        await pool.execute(PAIRS_SQL, OWN_DOMAINS, PROXIES // 2)
        await pool.execute("ANALYZE")


def _wait_ready(url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (URLError, TimeoutError):
            pass
        if time.monotonic() > deadline:
            raise BenchError(f"the broker did not become ready:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
