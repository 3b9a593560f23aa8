"""Which addresses may be connected to: public ones, and what the operator has allowed by name or network."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from pydantic import Field, field_validator

from limpet.kit.errors import LimpetError
from limpet.kit.settings import Common

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = IPv6Network("::/96")
# Special, though ipaddress (of some Python versions) calls them global. Clouds answer for the machine in the first two.
_SPECIAL: tuple[Network, ...] = (
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("3fff::/20"),
    IPv6Network("5f00::/16"),
)


MAX_JUDGED = 10_000


class AddressForbidden(LimpetError):
    """The address is not public and nobody has allowed it."""

    def __init__(self, host: str, address: Address) -> None:
        super().__init__(
            f"{host} is {address}, which is not a public address; "
            "if it may be connected to, set LIMPET_ALLOWED_NETWORKS to a network that holds it"
        )


def networks_of(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that traffic to this IPv6 address ends at."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def is_public(address: Address) -> bool:
    inner = embedded(address)
    if inner is not None:
        return is_public(inner)
    unusual = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    site_local = isinstance(address, IPv6Address) and address.is_site_local
    special = any(address in network for network in _SPECIAL)
    return address.is_global and not (unusual or site_local or special)


def is_inside(address: Address, networks: Sequence[Network]) -> bool:
    inner = embedded(address)
    return any(address in network or (inner is not None and inner in network) for network in networks)


class Guard:
    def __init__(self, *, networks: Sequence[Network] = (), hosts_file: Path | None = None) -> None:
        self._networks = networks
        self._hosts_file = hosts_file
        self._hosts: frozenset[str] = frozenset()
        self._seen: tuple[int, int] | None = None
        self._judged: dict[str, bool] = {}

    def check(self, host: str, port: int, address: str) -> None:
        """Raises AddressForbidden unless the address may be connected to for this host."""
        if not (self._is_open(address) or self._is_named(host, port)):
            raise AddressForbidden(host, ip_address(address.partition("%")[0]))

    def _is_open(self, address: str) -> bool:
        """What is public or inside an allowed network stays so: a page of a site that is an address asks every time."""
        known = self._judged.get(address)
        if known is None:
            found = ip_address(address.partition("%")[0])
            if len(self._judged) >= MAX_JUDGED:
                self._judged.clear()
            known = self._judged[address] = is_public(found) or is_inside(found, self._networks)
        return known

    def check_literal(self, host: str, port: int) -> None:
        """aiohttp asks no resolver for a host that is an address: it is checked before the request."""
        # Cheap and sure: every literal has a colon or starts with a digit, as few names do.
        if ":" in host:
            self.check(host, port, host)
        elif host[:1].isdigit():
            try:
                # Not only 127.0.0.1, but all that a connect or a proxy takes for it: 127.1, 0x7f000001, 2130706433.
                address = socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
            except OSError:
                return
            self.check(host, port, address)

    def _is_named(self, host: str, port: int) -> bool:
        if self._hosts_file is None:
            return False
        self._read(self._hosts_file)
        name = f"[{host}]" if ":" in host else host
        return bool(self._hosts & {host, name, f"{name}:{port}"})

    def _read(self, path: Path) -> None:
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                lines = (line.strip().lower() for line in path.read_text().splitlines())
                self._hosts = frozenset(line for line in lines if line and not line.startswith("#"))
                self._seen = seen
        except (OSError, UnicodeDecodeError):
            # A file that cannot be read allows nothing.
            self._hosts, self._seen = frozenset(), None


class GuardedCommon(Common):
    """What a process needs that connects to addresses which others have named."""

    allowed_networks: str = Field(
        default="",
        description="Networks that may be connected to although they are not public: CIDRs, comma-separated.",
    )
    allowed_hosts_file: Path | None = Field(
        default=None,
        description="File of hosts that may be connected to although they are not public: `host` or `host:port` a line.",
    )

    @field_validator("allowed_networks")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        networks_of(value)
        return value

    @property
    def guard(self) -> Guard:
        return Guard(networks=networks_of(self.allowed_networks), hosts_file=self.allowed_hosts_file)


class GuardedResolver(AbstractResolver):
    """Resolves names and checks every address found, so that what is connected to is what was checked."""

    def __init__(self, guard: Guard, *, inner: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            self._guard.check(host, port, result["host"])
        return found

    async def close(self) -> None:
        await self._inner.close()
