"""Which addresses may be fetched: SPEC X3."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.kit.guard import AddressForbidden, Guard, GuardedResolver, embedded, is_public, networks_of

SPECIAL_V4 = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.88.99.1", "192.0.2.1", "192.168.0.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
]  # fmt: skip
# Where clouds answer for the machine that asks: AWS, GCP and Azure; Azure's wire server; Alibaba; Oracle.
METADATA = ["169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"]
SPECIAL_V6 = [
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1", "2001::1", "2001:10::1", "3fff::1", "5f00::1",
]  # fmt: skip
PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450:4001:81b::200e",
]


def wrapped(v4: str) -> list[str]:
    """All the IPv6 addresses whose traffic ends at an IPv4 address."""
    number = int(ip_address(v4))
    high, low = number >> 16, number & 0xFFFF
    inverted = number ^ 0xFFFFFFFF
    return [
        f"::ffff:{v4}",
        f"::{v4}",
        f"64:ff9b::{v4}",
        f"64:ff9b:1::{v4}",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:808:808:0:ffff:{inverted >> 16:x}:{inverted & 0xFFFF:x}",
    ]


@pytest.mark.parametrize("address", [*SPECIAL_V4, *METADATA, *SPECIAL_V6])
def test_a_special_address_is_refused_and_the_refusal_says_what_to_do(address: str) -> None:
    with pytest.raises(AddressForbidden) as refused:
        Guard().check("inside.test", 80, address)
    assert "inside.test" in str(refused.value)
    assert "LIMPET_ALLOWED_NETWORKS" in str(refused.value)


@pytest.mark.parametrize("inner", [*SPECIAL_V4, *METADATA])
def test_an_address_inside_another_is_judged_by_where_its_traffic_ends(inner: str) -> None:
    for address in wrapped(inner):
        if int(ip_address(address)) > 1:
            assert embedded(ip_address(address)) == ip_address(inner), address
        assert not is_public(ip_address(address)), address


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_fetched(address: str) -> None:
    Guard().check("site.test", 443, address)
    Guard().check_literal(address, 443)


def test_a_zone_does_not_hide_an_address() -> None:
    with pytest.raises(AddressForbidden):
        Guard().check("x", 80, "fe80::1%eth0")
    with pytest.raises(AddressForbidden):
        Guard().check_literal("fe80::1%25eth0", 80)


@pytest.mark.parametrize(
    "spelling",
    [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1", "017700000001",
        "127.0.0.1.", "0", "0x0", "00000177.0x0.0.01", "10.1", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "::1",
        "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1", "::ffff:7f00:1",
    ],
)  # fmt: skip
def test_no_spelling_of_a_private_address_gets_round_the_guard(spelling: str) -> None:
    with pytest.raises(AddressForbidden):
        Guard().check_literal(spelling, 80)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_every_spelling_of_an_address_is_judged_alike(number: int) -> None:
    plain = str(ip_address(number))
    a, b, c, d = plain.split(".")
    spellings = [
        str(number), hex(number), f"0{number:o}", f"{a}.{b}.{int(c) << 8 | int(d)}", f"0x{int(a):x}.0{int(b):o}.{c}.{d}",
    ]  # fmt: skip
    for spelling in spellings:
        assert socket.inet_ntoa(socket.inet_aton(spelling)) == plain
        if is_public(ip_address(plain)):
            Guard().check_literal(spelling, 80)
        else:
            with pytest.raises(AddressForbidden):
                Guard().check_literal(spelling, 80)


@pytest.mark.parametrize(
    "name", ["", "shop.test", "1and1.test", "0x.test", "127.0.0.1.nip.test", "3com", "a1", "localhost"]
)
def test_a_name_is_left_to_the_resolver(name: str) -> None:
    Guard().check_literal(name, 80)


def test_allowed_networks_open_themselves_and_nothing_else() -> None:
    guard = Guard(networks=networks_of("10.1.0.0/16, fd00::/8 ,127.0.0.1"))
    for address in ("10.1.2.3", "fd00::1", "127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"):
        guard.check("x", 80, address)
    guard.check_literal("10.66051", 80)
    for address in ("10.2.0.1", "fc00::1", "127.0.0.2", "169.254.169.254"):
        with pytest.raises(AddressForbidden):
            guard.check("x", 80, address)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "lan", "10.0.0.1-10.0.0.9", "1.2.3"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        networks_of(text)


def test_allowed_hosts_are_read_from_a_file_by_name_and_port(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\nIntranet.test\nshop.test:8080\n[::1]:81\n\n127.0.0.1:82\n")
    guard = Guard(hosts_file=hosts)
    for host, port, address in (
        ("intranet.test", 1, "10.0.0.1"),
        ("shop.test", 8080, "127.0.0.1"),
        ("::1", 81, "::1"),
        ("127.0.0.1", 82, "127.0.0.1"),
    ):
        guard.check(host, port, address)
    for host, port in (("shop.test", 8081), ("other.test", 8080), ("sub.intranet.test", 1), ("# ours", 1), ("::1", 80)):
        with pytest.raises(AddressForbidden):
            guard.check(host, port, "10.0.0.1")


def test_a_changed_file_counts_at_once_and_a_lost_one_allows_nothing(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    guard = Guard(hosts_file=hosts)
    with pytest.raises(AddressForbidden):
        guard.check("a.test", 80, "10.0.0.1")
    hosts.write_text("a.test\n")
    guard.check("a.test", 80, "10.0.0.1")
    hosts.write_text("b.test\n")
    os.utime(hosts, ns=(1, 1))
    guard.check("b.test", 80, "10.0.0.1")
    with pytest.raises(AddressForbidden):
        guard.check("a.test", 80, "10.0.0.1")
    hosts.write_bytes(b"\xff\xfe")
    with pytest.raises(AddressForbidden):
        guard.check("b.test", 80, "10.0.0.1")
    hosts.unlink()
    with pytest.raises(AddressForbidden):
        guard.check("b.test", 80, "10.0.0.1")


class Book(AbstractResolver):
    """A name server of the tests' own: names in, addresses out."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self._addresses
        ]

    async def close(self) -> None:
        self.closed = True


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    mixed = GuardedResolver(Guard(), inner=Book("93.184.216.34", "10.0.0.1"))
    with pytest.raises(AddressForbidden):
        await mixed.resolve("rebind.test", 80)
    good = Book("93.184.216.34", "2606:4700::1111")
    resolver = GuardedResolver(Guard(), inner=good)
    assert [found["host"] for found in await resolver.resolve("site.test", 80)] == ["93.184.216.34", "2606:4700::1111"]
    await resolver.close()
    assert good.closed
