"""Passwords at rest: sealed with rotating keys, bound to their proxy."""

from __future__ import annotations

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from limpet.proxy_broker.errors import SecretUnreadable


class Vault:
    """Seals with the newest key and opens with any."""

    def __init__(self, keys: str) -> None:
        """Take Fernet keys, newest first, separated by commas."""
        names = [key.strip() for key in keys.split(",") if key.strip()]
        if not names:
            raise ValueError("at least one key is needed")
        self._fernet = MultiFernet([Fernet(name) for name in names])

    def seal(self, password: str, *, proxy_id: int) -> str:
        """The proxy's id goes inside, so that a token copied to another row does not open there."""
        return self._fernet.encrypt(f"{proxy_id}:{password}".encode()).decode()

    def open(self, sealed: str, *, proxy_id: int) -> str:
        try:
            plain = self._fernet.decrypt(sealed).decode()
        except InvalidToken as error:
            raise SecretUnreadable(f"no key opens the password of proxy {proxy_id}") from error
        owner, _, password = plain.partition(":")
        if owner != str(proxy_id):
            raise SecretUnreadable(f"the password of proxy {proxy_id} was sealed for another")
        return password

    def rotate(self, sealed: str) -> str:
        """The same secret under the newest key."""
        return self._fernet.rotate(sealed).decode()
