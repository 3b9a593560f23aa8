"""Signatures of webhooks: HMAC-SHA256 over id, timestamp and body, with a secret of the endpoint's own. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

ID_HEADER: Final = "Limpet-Webhook-Id"
TIMESTAMP_HEADER: Final = "Limpet-Webhook-Timestamp"
SIGNATURE_HEADER: Final = "Limpet-Webhook-Signature"
# An older or younger timestamp is somebody's recording.
WINDOW_SECONDS: Final = 300
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Signer:
    """Without a master secret nothing can be signed, and so no webhook may be asked for."""

    master: bytes = field(repr=False)

    @property
    def enabled(self) -> bool:
        return bool(self.master)

    def secret_of(self, endpoint: str) -> str:
        """Who knows one endpoint's secret can forge nothing for another."""
        return hmac.new(self.master, endpoint.encode(), hashlib.sha256).hexdigest()

    def headers(self, endpoint: str, *, delivery_id: UUID, body: bytes, at: float) -> dict[str, str]:
        timestamp = str(int(at))
        return {
            ID_HEADER: str(delivery_id),
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: sign(self.secret_of(endpoint), str(delivery_id), timestamp, body),
        }


def endpoint_of(url: str) -> str:
    """scheme://host:port, one spelling for each."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}:{parts.port or _PORTS[parts.scheme]}"


def sign(secret: str, webhook_id: str, timestamp: str, body: bytes) -> str:
    # Servers hand over header bytes that are no UTF-8 as surrogates.
    signed = f"{webhook_id}.{timestamp}.".encode("utf-8", "surrogateescape") + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float) -> bool:
    """For receivers: is this from us, unchanged, and of the last minutes?"""
    webhook_id, timestamp = headers.get(ID_HEADER, ""), headers.get(TIMESTAMP_HEADER, "")
    if not _SECONDS.fullmatch(timestamp) or abs(now - int(timestamp)) > WINDOW_SECONDS:
        return False
    expected = sign(secret, webhook_id, timestamp, body)
    said = headers.get(SIGNATURE_HEADER, "").encode("utf-8", "surrogateescape")
    return hmac.compare_digest(expected.encode(), said)
