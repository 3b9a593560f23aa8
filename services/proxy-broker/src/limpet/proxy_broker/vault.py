"""Passwords at rest: AES-256-GCM under keys that rotate, each token bound to its proxy."""

from __future__ import annotations

import binascii
import hashlib
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from limpet.proxy_broker.errors import SecretUnreadable

VERSION: Final = "v1"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12


class Vault:
    """Seals with the newest key and opens with any. A token is `v1:<key id>:<base64 of nonce and ciphertext>`."""

    def __init__(self, keys: str) -> None:
        """Take keys, newest first, separated by commas; each is 32 bytes in url-safe base64."""
        found = [_key(text.strip()) for text in keys.split(",") if text.strip()]
        if not found:
            raise ValueError("at least one key is needed")
        self._ciphers = {_id(key): AESGCM(key) for key in found}
        if len(self._ciphers) < len(set(found)):
            raise ValueError("two keys have the same id; make another one")
        self.newest = _id(found[0])

    @property
    def key_ids(self) -> list[str]:
        """The keys that open here, newest first."""
        return list(self._ciphers)

    def seal(self, password: str, *, proxy_id: int) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self.newest].encrypt(nonce, password.encode(), _owner(proxy_id))
        return f"{VERSION}:{self.newest}:{urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, *, proxy_id: int) -> str:
        """A token that was copied to another proxy does not open there."""
        version, _, rest = sealed.partition(":")
        key_id, _, token = rest.partition(":")
        cipher = self._ciphers.get(key_id)
        if version != VERSION or cipher is None:
            raise SecretUnreadable(f"no key opens the password of proxy {proxy_id}")
        try:
            raw = urlsafe_b64decode(token)
            return cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _owner(proxy_id)).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable(f"the password of proxy {proxy_id} is damaged or was sealed for another") from error


def _key(text: str) -> bytes:
    try:
        key = urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        # Never the text itself: it is a secret.
        raise ValueError("a key is 32 bytes in url-safe base64")
    return key


def _id(key: bytes) -> str:
    """Names a key without telling anything about it."""
    return hashlib.sha256(b"limpet key id" + key).hexdigest()[:8]


def _owner(proxy_id: int) -> bytes:
    return b"proxy %d" % proxy_id
