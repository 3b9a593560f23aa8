"""Keys for the broker's vault, made as `limpet up` makes them."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode


def sealing_key() -> str:
    return urlsafe_b64encode(secrets.token_bytes(32)).decode()
