"""X5, F1: the chart on a real API server and kubelet. `make e2e` brings the cluster and names it in KUBECONFIG."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.support.helm import BINARIES, CHART
from tests.support.site import Plain
from tests.support.waiting import until

HERE = Path(__file__).parent
NAMESPACE = "crawling"
VALUES = ("-f", str(HERE / "values.yaml"))
PAGES = int(os.environ.get("E2E_PAGES", "2000"))
DELAY = 0.05
# Of the clocks and the scheduling of one busy machine; a fetcher too many would halve the gap.
TOLERANCE = 0.02
GATEWAY = "10.88.0.1"


def run(binary: str, *arguments: str, check: bool = True) -> str:
    done = subprocess.run([str(BINARIES / binary), *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{binary} {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def kubectl(*arguments: str, check: bool = True) -> str:
    return run("kubectl", "-n", NAMESPACE, *arguments, check=check)


def helm(version: str, *arguments: str) -> str:
    return run(version, "-n", NAMESPACE, *arguments)


def replicas(name: str = "fetcher") -> int:
    return int(kubectl("get", "deployment", f"limpet-{name}", "-o", "jsonpath={.spec.replicas}"))


@pytest.fixture(scope="module")
def release() -> float:
    """The installed chart; the seconds that `helm install --wait` took."""
    assert "KUBECONFIG" in os.environ, "There is no cluster: run `make e2e`"
    if "limpet" in run("helm4", "-n", NAMESPACE, "list", "-q"):
        return 0.0
    folder = Path(os.environ["KUBECONFIG"]).parent / "volumes"
    for place in range(3):
        (folder / str(place)).mkdir(parents=True)
        (folder / str(place)).chmod(0o777)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{place}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(folder / str(place))},
            },
        }
        file = folder / f"{place}.json"
        file.write_text(json.dumps(volume))
        run("kubectl", "apply", "-f", str(file))
    run("kubectl", "create", "namespace", NAMESPACE)
    # Whatever is not `restricted` is refused by the API server.
    run("kubectl", "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    started = time.monotonic()
    helm("helm4", "install", "limpet", str(CHART), *VALUES, "--wait", "--timeout", "5m")
    return time.monotonic() - started


class Api:
    """The front door, at whichever pod of health is ready. Remembers every answer that is the platform's own fault."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        secret = json.loads(kubectl("get", "secret", "limpet-keys", "-o", "json"))["data"]
        headers = {"Authorization": f"Bearer {base64.b64decode(secret['admin-key']).decode()}"}
        self.client = httpx.AsyncClient(headers=headers, trust_env=False, timeout=30)

    def address(self) -> str:
        slices = json.loads(
            kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=limpet-health", "-o", "json")
        )
        ready = [
            address
            for item in slices["items"]
            for one in item["endpoints"] or []
            if one["conditions"]["ready"]
            for address in one["addresses"]
        ]
        return f"http://{ready[0]}:8080" if ready else ""

    async def send(self, method: str, path: str, body: object = None) -> Any:
        async def once() -> Any:
            address = await asyncio.to_thread(self.address)
            if not address:
                return None
            try:
                answer = await self.client.request(method, address + path, json=body)
            except httpx.TransportError:
                return None
            if answer.status_code >= 500:
                self.faults.append(f"{method} {path}: {answer.status_code}")
                return None
            return (answer,)

        (answer,) = await until(once, seconds=120, every=0.5)
        assert answer.status_code < 400 or answer.status_code == 409, answer.text
        return answer.json()

    async def completed(self, batch: str) -> int:
        return int((await self.send("GET", f"/api/admin/batches/{batch}"))["tasks"].get("completed", 0))


@pytest.fixture
async def api(release: float) -> AsyncIterator[Api]:
    api = Api()
    yield api
    await api.client.aclose()


def test_x5_the_chart_installs_and_a_page_is_crawled(release: float) -> None:
    print(f"helm install --wait: {release:.1f} s")
    print(run("kubectl", "version"))
    pods = json.loads(kubectl("get", "pods", "-l", "app.kubernetes.io/component!=migrate", "-o", "json"))["items"]
    assert len(pods) == 8
    assert all(status["ready"] for pod in pods for status in pod["status"]["containerStatuses"])
    assert "Succeeded" in helm("helm4", "test", "limpet", "--timeout", "3m")


async def test_x5_scaling_upgrading_and_killing_loses_nothing_and_keeps_the_pace(api: Api) -> None:
    started = time.monotonic()
    async with Plain(PAGES, host=GATEWAY) as site:
        domain = {"name": site.host, "crawl_delay_seconds": DELAY, "obey_robots": False}
        await api.send("POST", "/api/admin/domains", domain)
        await api.send("POST", "/api/admin/batches", {"name": "scaled"})
        urls = site.page_urls()
        for first in range(0, PAGES, 500):
            tasks = [{"url": url} for url in urls[first : first + 500]]
            await api.send("POST", "/api/admin/tasks/bulk", {"tasks": tasks, "batch": "scaled"})

        async def reached(share: float) -> None:
            async def enough() -> bool:
                return await api.completed("scaled") >= share * PAGES

            await until(enough, seconds=600, every=1.0)

        # In threads: the site has to answer meanwhile.
        async def do(*arguments: str) -> str:
            return await asyncio.to_thread(kubectl, *arguments)

        async def upgrade(version: str, *options: str) -> int:
            await asyncio.to_thread(helm, version, "upgrade", "limpet", str(CHART), *VALUES, *options)
            return await asyncio.to_thread(replicas)

        await reached(0.05)
        await do("scale", "deployment/limpet-fetcher", "--replicas=5")
        await reached(0.25)
        assert await upgrade("helm4", "--set", "scheduler.settings.TRACES_PER_SECOND=5") == 5
        assert await upgrade("helm3", "--set", "scheduler.settings.TRACES_PER_SECOND=6") == 5
        await reached(0.5)
        await do("scale", "deployment/limpet-fetcher", "--replicas=1")
        chance = Random(8)
        for share in (0.6, 0.7, 0.8):
            await reached(share)
            wanted = "app.kubernetes.io/component in (scheduler,fetcher,parser)"
            names = (await do("get", "pods", "-l", wanted, "-o", "name")).split()
            await do("delete", "--wait=false", "--grace-period=0", "--force", chance.choice(sorted(names)))
        await reached(1)
        assert await upgrade("helm4") == 1
        seen = {record.path for record in site.log.of(prefix="/p/")}
        assert len(seen) == PAGES
        starts = sorted(record.started for record in site.log.of(prefix="/p/"))
        gaps = [later - sooner for sooner, later in pairwise(starts)]
        early = [gap for gap in gaps if gap < DELAY - TOLERANCE]
        print(
            f"{PAGES} pages, {len(starts)} requests, {time.monotonic() - started:.0f} s, {len(early)} gaps early, least {min(gaps):.3f} s"
        )
        assert len(early) <= 0.01 * len(gaps)
