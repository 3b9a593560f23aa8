"""Members: which proxies could serve a domain at all, whatever each is doing at the moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.tally import PairKey

OTHERS: Final = """
    SELECT asked.domain
      FROM unnest($1::text[], $2::text[]) AS asked (domain, kind)
      LEFT JOIN policies AS policy ON policy.domain = asked.domain
     WHERE EXISTS (
        SELECT FROM proxies AS proxy
          LEFT JOIN pairs AS pair ON pair.domain = asked.domain AND pair.proxy_id = proxy.proxy_id
         WHERE CASE WHEN EXISTS (SELECT FROM pairs AS own WHERE own.domain = asked.domain AND own.assigned)
                    THEN coalesce(pair.assigned, false)
                    ELSE NOT EXISTS (SELECT FROM pairs AS other
                                      WHERE other.proxy_id = proxy.proxy_id AND other.assigned) END
           AND NOT proxy.operator_disabled AND NOT coalesce(pair.operator_disabled, false)
           AND (greatest(proxy.cooling_until, pair.cooling_until, pair.blocked_until)
                <= statement_timestamp()) IS NOT FALSE
           AND (asked.kind = '' OR proxy.kind = asked.kind)
           AND (policy.country_code = '' OR proxy.country_code = policy.country_code) IS NOT FALSE
           AND (policy.providers = '{}' OR proxy.provider = ANY(policy.providers)) IS NOT FALSE
           AND (policy.kinds = '{}' OR proxy.kind = ANY(policy.kinds)) IS NOT FALSE
           AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::bigint[]) AS wave (domain, proxy_id)
                            WHERE wave.domain = asked.domain AND wave.proxy_id = proxy.proxy_id)
     )
"""


async def with_others(conn: Conn, *, kinds: Mapping[str, str], refused: Collection[PairKey]) -> set[str]:
    """Of these domains (each with a kind, or empty for any) those that have a proxy left which is not among the refused."""
    domains, proxy_ids = [domain for domain, _ in refused], [proxy_id for _, proxy_id in refused]
    rows = await conn.fetch(OTHERS, list(kinds), list(kinds.values()), domains, proxy_ids)
    return {row["domain"] for row in rows}


KINDS: Final = """
    SELECT DISTINCT asked.domain, proxy.kind
      FROM unnest($1::text[]) AS asked (domain)
      LEFT JOIN policies AS policy ON policy.domain = asked.domain
     CROSS JOIN proxies AS proxy
      LEFT JOIN pairs AS pair ON pair.domain = asked.domain AND pair.proxy_id = proxy.proxy_id
     WHERE CASE WHEN EXISTS (SELECT FROM pairs AS own WHERE own.domain = asked.domain AND own.assigned)
                THEN coalesce(pair.assigned, false)
                ELSE NOT EXISTS (SELECT FROM pairs AS other
                                  WHERE other.proxy_id = proxy.proxy_id AND other.assigned) END
       AND NOT proxy.operator_disabled AND NOT coalesce(pair.operator_disabled, false)
       AND (policy.country_code = '' OR proxy.country_code = policy.country_code) IS NOT FALSE
       AND (policy.providers = '{}' OR proxy.provider = ANY(policy.providers)) IS NOT FALSE
       AND (policy.kinds = '{}' OR proxy.kind = ANY(policy.kinds)) IS NOT FALSE
"""


async def kinds_of(conn: Conn, *, domains: Collection[str]) -> set[tuple[str, str]]:
    """Domain and kind, for each kind of proxy that the domain may use."""
    return {(row["domain"], row["kind"]) for row in await conn.fetch(KINDS, list(domains))}
