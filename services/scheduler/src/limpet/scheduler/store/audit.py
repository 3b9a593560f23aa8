"""The audit: every change of a task's status, with who, when, from, to and why."""

from __future__ import annotations

from typing import Final

from limpet.kit.pg import Conn, Record

LIST_AUDIT: Final = """
    SELECT at, source, target, event, actor, reason FROM audit WHERE task_id = $1 ORDER BY at
"""


async def list_audit(conn: Conn, task_id: int) -> list[Record]:
    return await conn.fetch(LIST_AUDIT, task_id)
