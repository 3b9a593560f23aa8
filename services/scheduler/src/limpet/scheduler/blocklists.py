"""Which proxies are blocked where, as the proxy broker says. While it is away, that is simply not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import structlog

from limpet.contracts.proxy.v1.proxy_service_pb2 import ListBlockedRequest

if TYPE_CHECKING:
    # It exists in the stub file only.
    from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceAsyncStub

log = structlog.get_logger()
SECONDS = 2.0


class Blocklists:
    def __init__(self, stub: ProxyServiceAsyncStub | None) -> None:
        self._stub = stub

    async def of(self, domains: Sequence[str]) -> Mapping[str, Sequence[int]] | None:
        """The ids of blocked proxies by domain; None when nobody answers."""
        if self._stub is None:
            return None
        try:
            answer = await self._stub.ListBlocked(ListBlockedRequest(domains=domains), timeout=SECONDS)
        except grpc.aio.AioRpcError as error:
            log.warning("blocklists_unknown", code=error.code().name, error=error.details())
            return None
        return {one.domain: list(one.proxy_ids) for one in answer.blocks}
