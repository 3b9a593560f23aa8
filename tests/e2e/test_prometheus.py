"""X3: Debian's Prometheus scrapes the running platform: every query of the dashboards has data, every rule is evaluated."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from limpet.cli.local.platform import Platform
from tests.support.door import Door
from tests.support.forward_proxy import forward_proxy
from tests.support.helm import CHART
from tests.support.members import ROOT
from tests.support.servers import free_port
from tests.support.site import Plain
from tests.support.waiting import until
from tools.dashboards import DASHBOARDS

PROMETHEUS = ROOT / ".venv" / "prometheus" / "prometheus"
ALERTS = CHART / "files" / "alerts"


def config(platform: Platform) -> dict[str, Any]:
    jobs: dict[str, list[str]] = {}
    for name, port in platform.runtime.ports.items():
        if name.endswith(".ops"):
            jobs.setdefault(re.sub(r"(-\d+)?\.ops$", "", name), []).append(f"127.0.0.1:{port}")
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in ALERTS.glob("*.yaml")],
        "scrape_configs": [{"job_name": job, "static_configs": [{"targets": found}]} for job, found in jobs.items()],
    }


@pytest.fixture
async def prometheus(platform: Platform, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    assert PROMETHEUS.exists(), "Prometheus is not here: run `make promtool`"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config(platform)))
    port = free_port()
    process = subprocess.Popen(
        [
            str(PROMETHEUS),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


async def ask(client: httpx.AsyncClient, query: str) -> list[Any]:
    try:
        answer = await client.get("/api/v1/query", params={"query": query})
    except httpx.TransportError:
        return []
    if answer.status_code == 503:
        return []
    assert answer.status_code == 200, f"{query}: {answer.text}"
    found: list[Any] = answer.json()["data"]["result"]
    return found


async def test_x3_every_query_of_the_dashboards_has_data_and_every_rule_works(
    door: Door, prometheus: httpx.AsyncClient
) -> None:
    async with Plain(40) as site, forward_proxy() as proxy:
        added = await door.send(
            "POST", "/api/admin/proxies", body={"protocol": "http", "host": "127.0.0.1", "port": proxy.port}
        )
        assert added.status_code == 201, added.text
        await door.make_domain(site.host, crawl_delay_seconds=0, proxy_policy="required")
        await until(lambda: ask(prometheus, "limpet_build_info"), seconds=60)
        await door.submit(site.page_urls(), batch="scraped")
        await door.completed("scraped", 40, seconds=60)
        lacking: dict[str, str] = {}
        for dashboard in DASHBOARDS:
            for panel in dashboard.panels:
                for query in panel.queries:
                    lacking[query] = f"{dashboard.name}: {panel.title}"

        async def all_have_data() -> bool:
            for query in list(lacking):
                if await ask(prometheus, query):
                    del lacking[query]
            return not lacking

        try:
            await until(all_have_data, seconds=90, every=1.0)
        except TimeoutError:
            pytest.fail(f"no data for {json.dumps(lacking, indent=1)}")
        groups = (await prometheus.get("/api/v1/rules")).json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) >= 30
        assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
        firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}
        # A healthy platform of one proxy: nothing else may have fired.
        assert firing <= {"LimpetDomainsShortOfProxies"}, firing
