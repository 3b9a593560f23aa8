"""One spelling for every URL: DECISIONS 4, SPEC S4."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.fetcher.redirect import domain_of
from limpet.scheduler.canonical import MAX_HOST, MAX_LENGTH, BadUrl, _spell_out, canonical


@pytest.mark.parametrize(
    ("text", "url"),
    [
        # Already canonical: nothing changes.
        ("http://shop.test/", "http://shop.test/"),
        ("https://shop.test/a/b.html", "https://shop.test/a/b.html"),
        ("http://shop.test:8080/a", "http://shop.test:8080/a"),
        # Case: of scheme and host only.
        ("HTTP://Shop.TEST/Path/File", "http://shop.test/Path/File"),
        ("http://User:PassWord@Shop.test/", "http://User:PassWord@shop.test/"),
        # Ports.
        ("http://shop.test:80/", "http://shop.test/"),
        ("https://shop.test:443/", "https://shop.test/"),
        ("http://shop.test:443/", "http://shop.test:443/"),
        ("https://shop.test:80/", "https://shop.test:80/"),
        ("http://shop.test:/", "http://shop.test/"),
        ("http://shop.test:0080/", "http://shop.test/"),
        ("http://shop.test:08080/", "http://shop.test:8080/"),
        # Nothing is the root.
        ("http://shop.test", "http://shop.test/"),
        ("http://shop.test?a=1", "http://shop.test/?a=1"),
        ("http://shop.test#top", "http://shop.test/"),
        # Fragments.
        ("http://shop.test/a#part", "http://shop.test/a"),
        ("http://shop.test/a#", "http://shop.test/a"),
        ("http://shop.test/a#!/page/2", "http://shop.test/a#!/page/2"),
        # Dot segments, escaped ones too.
        ("http://shop.test/a/./b/../c", "http://shop.test/a/c"),
        ("http://shop.test/a/b/..", "http://shop.test/a/"),
        ("http://shop.test/a/b/.", "http://shop.test/a/b/"),
        ("http://shop.test/../../etc", "http://shop.test/etc"),
        ("http://shop.test/a/%2e%2E/b", "http://shop.test/b"),
        ("http://shop.test/.well-known/x", "http://shop.test/.well-known/x"),
        ("http://shop.test/a//b", "http://shop.test/a//b"),
        # Percent-encoding: upper case, only where needed, never twice.
        ("http://shop.test/%7euser/%41", "http://shop.test/~user/A"),
        ("http://shop.test/caf%c3%a9", "http://shop.test/caf%C3%A9"),
        ("http://shop.test/café", "http://shop.test/caf%C3%A9"),
        ("http://shop.test/a%2Fb", "http://shop.test/a%2Fb"),
        ("http://shop.test/100%", "http://shop.test/100%25"),
        ("http://shop.test/%zz", "http://shop.test/%25zz"),
        ("http://shop.test/%ff", "http://shop.test/%FF"),
        ("http://shop.test/a;b=c,d", "http://shop.test/a;b=c,d"),
        # Queries: keys sorted, the values of one key in their order.
        ("http://shop.test/?b=2&a=1", "http://shop.test/?a=1&b=2"),
        ("http://shop.test/?b=2&a=9&b=1&a=3", "http://shop.test/?a=9&a=3&b=2&b=1"),
        ("http://shop.test/?B=1&a=2", "http://shop.test/?B=1&a=2"),
        ("http://shop.test/?", "http://shop.test/"),
        ("http://shop.test/?a=", "http://shop.test/?a="),
        ("http://shop.test/?q=a%20b", "http://shop.test/?q=a+b"),
        ("http://shop.test/?q=%e4", "http://shop.test/?q=%E4"),
        ("http://shop.test/?q=ä", "http://shop.test/?q=%C3%A4"),
        # Hosts.
        ("http://shop.test./a", "http://shop.test/a"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://BÜCHER.test/", "http://xn--bcher-kva.test/"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a"),
        ("http://[2001:DB8::A]:80/", "http://[2001:db8::a]/"),
        ("http://under_score.test/", "http://under_score.test/"),
        # White space around is not part of it.
        ("  http://shop.test/a \n", "http://shop.test/a"),
    ],
)
def test_a_url_has_one_spelling(text: str, url: str) -> None:
    found = canonical(text)
    assert found.url == url
    assert found.digest == hashlib.sha256(url.encode()).digest()


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("http://Shop.test/a", "shop.test"),
        ("http://shop.test:80/", "shop.test"),
        ("http://shop.test:8080/", "shop.test:8080"),
        ("http://user:secret@shop.test/", "shop.test"),
        ("http://a@b@shop.test/", "shop.test"),
        ("https://bücher.test:444/", "xn--bcher-kva.test:444"),
        ("http://[::1]:81/", "[::1]:81"),
    ],
)
def test_the_domain_is_the_host_with_a_port_that_is_not_the_schemes_own(text: str, domain: str) -> None:
    assert canonical(text).domain == domain


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "http:// or https://"),
        ("shop.test/a", "http:// or https://"),
        ("ftp://shop.test/", "http:// or https://"),
        ("javascript:alert(1)", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("//shop.test/", "http:// or https://"),
        ("http://", "host name"),
        ("http:///a", "host name"),
        ("http:shop.test", "host name"),
        ("http://u:p@/", "host name"),
        ("http://-a-.test-/", "host name"),
        ("http://a%20b/", "host name"),
        ("http://a\\b/", "host name"),
        ("http://../", "host name"),
        ("http://[::1/", "IPv6"),
        ("http://[fe80::1%25eth0]/", ""),
        ("http://ü..test/", "host name"),
        ("http://shop.test:0/", "port 0"),
        ("http://shop.test:65536/", "ort"),
        ("http://shop.test:99999/", "ort"),
        ("http://shop.test:http/", "ort"),
        ("http://shop.test/a b", "white space"),
        ("http://shop.test/\x00", "white space"),
        ("http://shop.test/\r\nHost: other", "white space"),
        ("http://shop.test/\ud800", "surrogate"),
        ("http://shop.test/?q=\ud800", "surrogate"),
        ("http://shop.test/#!\ud800", "surrogate"),
        ("http://shop.test/" + "a" * MAX_LENGTH, "longer than"),
        ("http://shop.test/" + "é" * (MAX_LENGTH // 3), "longer than"),
        (f"http://{'a.' * 150}test/", "host name"),
        (f"http://{'a.' * 150}test/?slow", "host name"),
    ],
)
def test_what_is_no_url_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(BadUrl) as refused:
        canonical(text)
    assert reason in str(refused.value)
    assert str(refused.value)


hosts = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z0-9]{1,8}){0,3}", fullmatch=True)
schemes = st.sampled_from(["http", "https"])
ports = st.none() | st.sampled_from([80, 443]) | st.integers(1, 65535)
segments = st.lists(
    st.sampled_from(
        ["", ".", "..", "a", "B", "%41", "%2e", "%2F", "%zz", "%", "é", "%C3%A9", "~", "a;b", "+", "[", "|"]
    ),
    max_size=7,
)
keys = st.sampled_from(["a", "b", "B", "%61", "é", "a+b", "%20", ""])
queries = st.lists(st.tuples(keys, st.none() | st.sampled_from(["", "1", "2", "%31", "+", "%2B", "&amp;", "=", "%ff"])))


@st.composite
def urls(draw: st.DrawFn) -> str:
    scheme, host, port = draw(schemes), draw(hosts), draw(ports)
    path = "/" + "/".join(draw(segments))
    query = "&".join(key if value is None else f"{key}={value}" for key, value in draw(queries))
    fragment = draw(st.sampled_from(["", "#", "#a", "#!", "#!/é"]))
    return f"{scheme}://{host}{'' if port is None else f':{port}'}{path}{'?' + query if query else ''}{fragment}"


def spelt(text: str) -> str | None:
    try:
        return canonical(text).url
    except BadUrl:
        return None


@settings(deadline=None, max_examples=120)
@given(urls())
def test_the_canonical_spelling_is_its_own(url: str) -> None:
    once = canonical(url)
    assert canonical(once.url) == once


@settings(deadline=None, max_examples=120)
@given(st.text(max_size=60).map(lambda tail: f"http://{tail}") | st.text(max_size=40))
@example("http://a/" + "é" * 3000)
@example("http://\u2100.test/")
@example("http://a/?\udcff=1")
def test_any_text_is_refused_or_spelt_once_and_for_all(text: str) -> None:
    once = spelt(text)
    assert once is None or spelt(once) == once


@settings(deadline=None, max_examples=80)
@given(urls())
def test_case_of_scheme_and_host_does_not_matter(url: str) -> None:
    scheme, _, rest = url.partition("://")
    host, slash, tail = rest.partition("/")
    assert canonical(f"{scheme.upper()}://{host.upper()}{slash}{tail}") == canonical(url)


@settings(deadline=None, max_examples=80)
@given(schemes, hosts, segments)
def test_the_default_port_does_not_matter(scheme: str, host: str, parts: list[str]) -> None:
    port = {"http": 80, "https": 443}[scheme]
    path = "/".join(parts)
    assert canonical(f"{scheme}://{host}:{port}/{path}") == canonical(f"{scheme}://{host}/{path}")


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter_and_that_of_values_does(pairs: list[tuple[str, int]], rng: object) -> None:
    def url(given: list[tuple[str, int]]) -> str:
        return canonical("http://shop.test/?" + "&".join(f"{key}={value}" for key, value in given)).url

    by_key = {key: [value for name, value in pairs if name == key] for key, _ in pairs}
    shuffled = list(by_key)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert url(pairs) == url([(key, value) for key in shuffled for value in by_key[key]])
    backwards = [(key, value) for key in by_key for value in reversed(by_key[key])]
    assert (url(backwards) == url(pairs)) == all(values == values[::-1] for values in by_key.values())


@settings(deadline=None, max_examples=150)
@given(urls() | st.from_regex(r"https?://[a-z0-9.-]{1,20}(:[0-9]{1,5})?/[A-Za-z0-9._~/-]{0,20}", fullmatch=True))
@example(f"http://{'a.' * 150}test/")
@example("http://shop.test:65535/")
@example("http://shop.test:65536/")
@example("http://shop.test:080/")
@example("http://shop.test:80/")
@example("http://a./")
def test_the_fast_road_leads_where_the_slow_one_does(url: str) -> None:
    try:
        slow = _spell_out(url)
    except BadUrl:
        slow = None
    assert spelt(url) == slow


@settings(deadline=None, max_examples=80)
@given(urls() | st.sampled_from(["http://bücher.test/", "http://[2001:DB8::1]:8/", "http://Shop.test.:80/x"]))
def test_the_fetcher_finds_the_same_domain_in_a_url_as_the_scheduler(url: str) -> None:
    found = canonical(url)
    assert domain_of(found.url) == found.domain
    assert domain_of(url) == found.domain


@settings(deadline=None, max_examples=80)
@given(urls())
def test_a_canonical_url_is_ascii_without_dots_to_resolve(url: str) -> None:
    parts = urlsplit(canonical(url).url)
    assert (parts.netloc + parts.path + parts.query).isascii()
    assert not {".", ".."} & set(parts.path.split("/"))
    assert len(parts.hostname or "") <= MAX_HOST
