"""The proxy that a request goes through."""

from __future__ import annotations

from dataclasses import dataclass, field

import aiohttp
from yarl import URL

SOCKS5 = "socks5"
PROTOCOLS = ("http", "https", SOCKS5)


@dataclass(frozen=True, slots=True)
class Via:
    protocol: str
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def url(self) -> URL:
        return URL.build(scheme=self.protocol, host=self.host, port=self.port)

    @property
    def credentials(self) -> dict[str, str]:
        """The header for the proxy, where it asks for one."""
        if not self.username:
            return {}
        return {"Proxy-Authorization": aiohttp.encode_basic_auth(self.username, self.password)}
