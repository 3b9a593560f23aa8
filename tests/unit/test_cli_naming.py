"""A domain is a host, with its port where that is not the scheme's own."""

from __future__ import annotations

import pytest

from limpet.cli.errors import WrongInput
from limpet.cli.naming import domain_name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://shop.example/a?b=c", "shop.example"),
        ("http://shop.example:80/", "shop.example"),
        ("https://shop.example:443/", "shop.example"),
        ("http://shop.example:443/", "shop.example:443"),
        ("http://127.0.0.1:8000/p/1", "127.0.0.1:8000"),
        ("HTTPS://Shop.Example./", "shop.example"),
        ("https://user:secret@shop.example/", "shop.example"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("https://[2001:DB8::1]/", "[2001:db8::1]"),
    ],
)
def test_a_url_names_its_domain(url: str, name: str) -> None:
    assert domain_name(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example",
        "ftp://shop.example/",
        "http://",
        "http:///path",
        "http://a:99999/",
        "http://a:0/",
        "http://a b/",
    ],
)
def test_what_cannot_be_crawled_is_wrong_input(url: str) -> None:
    with pytest.raises(WrongInput):
        domain_name(url)
