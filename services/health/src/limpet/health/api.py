"""What the health service itself answers: how the platform is, and its numbers."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from limpet.health.board import Board
from limpet.kit.rest import require


def add_routes(app: FastAPI, board: Board) -> None:
    @app.get("/health", summary="Status of the platform and of every live worker", tags=["health"])
    async def health() -> Response:
        """Always 200 while this process answers, also when the verdict is "down": probes ask /livez and /readyz."""
        return Response(board.health, media_type="application/json")

    @app.get(
        "/api/system/stats",
        summary="Tasks by status, pages per second, workers by service",
        tags=["health"],
        dependencies=[require("read")],
    )
    async def stats() -> Response:
        return Response(board.stats, media_type="application/json")
