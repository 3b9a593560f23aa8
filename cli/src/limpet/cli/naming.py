"""How a URL names its domain: the host, with its port where that is not the scheme's own."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from limpet.cli.errors import WrongInput

OWN_PORTS: Final = {"http": 80, "https": 443}


def domain_name(url: str) -> str:
    """The name of the domain that `url` belongs to. A URL that cannot be crawled is wrong input."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise WrongInput(f"{url!r} is not a URL: {error}", hint="Write it as https://host/path.") from error
    if parts.scheme not in OWN_PORTS:
        raise WrongInput(f"{url!r} is not an http or https URL.", hint="Write it as https://host/path.")
    host = _host(parts.hostname or "")
    if not host or port == 0:
        raise WrongInput(f"{url!r} has no valid host and port.", hint="Write it as https://host/path.")
    if port is None or port == OWN_PORTS[parts.scheme]:
        return host
    return f"{host}:{port}"


def _host(name: str) -> str:
    """Lower case, ASCII form, no root dot; brackets around an IPv6 address. Empty when there is no such host."""
    if ":" in name:
        return f"[{name.lower()}]"
    name = name.rstrip(".").lower()
    if any(char.isspace() for char in name):
        return ""
    try:
        return name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""
