"""Table proxies: many at once, each known by its identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.store.proxies import NewProxy

Identity = tuple[str, str, int, str]


ADD_MANY: Final = """
    INSERT INTO proxies (protocol, host, port, username, kind, country_code, city, provider, monthly_cost,
                         max_requests_per_hour, max_concurrent_leases, cost_per_gb)
    SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::numeric[], $10::integer[], $11::integer[], $12::numeric[])
                  AS new (protocol, host, port, username, kind, country_code, city, provider, monthly_cost,
                          max_requests_per_hour, max_concurrent_leases, cost_per_gb)
     ORDER BY protocol, host, port, username
    ON CONFLICT ON CONSTRAINT proxies_identity DO NOTHING
    RETURNING proxy_id, protocol, host, port, username
"""


async def add_many(conn: Conn, *, proxies: Sequence[NewProxy]) -> dict[Identity, int]:
    """The ids of those that were not there; in the order of identity, so that two imports do not wait in a circle."""
    columns = [[getattr(proxy, field.name) for proxy in proxies] for field in fields(NewProxy)]
    return {_identity(row): row["proxy_id"] for row in await conn.fetch(ADD_MANY, *columns)}


FIND_MANY: Final = """
    SELECT proxy_id, protocol, host, port, username
      FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[]) AS wanted (protocol, host, port, username)
      JOIN proxies USING (protocol, host, port, username)
"""


async def find_many(conn: Conn, *, identities: Sequence[Identity]) -> dict[Identity, int]:
    """The ids of those that are there."""
    columns = [[one[place] for one in identities] for place in range(4)]
    return {_identity(row): row["proxy_id"] for row in await conn.fetch(FIND_MANY, *columns)}


SET_PASSWORDS: Final = """
    UPDATE proxies AS proxy SET password_sealed = new.sealed, updated_at = now()
      FROM unnest($1::bigint[], $2::text[]) AS new (proxy_id, sealed)
     WHERE proxy.proxy_id = new.proxy_id
"""


async def set_passwords(conn: Conn, *, sealed: Mapping[int, str]) -> None:
    """Of proxies that we have added or locked."""
    await conn.execute(SET_PASSWORDS, list(sealed), list(sealed.values()))


def _identity(row: Mapping[str, object]) -> Identity:
    return str(row["protocol"]), str(row["host"]), int(str(row["port"])), str(row["username"])
