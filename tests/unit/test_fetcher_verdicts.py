"""What an answer is, where a redirect leads, who is to blame, and the fact that says so: DECISIONS 21, 22 and 26."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchRequested, FetchReturned, OrderKind
from limpet.contracts.events.v1.fetch_pb2 import ReturnReason as Why
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import Outcome
from limpet.fetcher import facts
from limpet.fetcher.blame import outcome_of
from limpet.fetcher.blocks import wall_in
from limpet.fetcher.facts import OUTCOMES, Judgement, Try
from limpet.fetcher.fetch import judge
from limpet.fetcher.page import Page, media_type, plain
from limpet.fetcher.redirect import Moved, domain_of, elsewhere, follow
from limpet.fetcher.validate import (
    MAX_RETRY_AFTER,
    Failure,
    Rejection,
    retry_after_seconds,
    verdict,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
BLOCKED, GARBAGE = RejectKind.REJECT_KIND_BLOCKED, RejectKind.REJECT_KIND_GARBAGE
SERVER, CLIENT = FailureKind.FAILURE_KIND_SERVER_ERROR, FailureKind.FAILURE_KIND_CLIENT_ERROR
OF_KIND = {BLOCKED: Rejection, GARBAGE: Rejection, SERVER: Failure, CLIENT: Failure}
CHALLENGE = (
    b"<html><head><script src=/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1></script></head>"
    b"<body>Just a moment</body></html>"
)
HOSTILE_BYTES = 30_000
TEXT = b"<p>" + b"A fine pair of boots, waxed and stitched by hand. " * 40 + b"</p>"


def judged(
    status: int = 200,
    body: bytes = TEXT,
    *,
    content_type: str = "text/html",
    retry_after: int = 0,
    least: int = 0,
    is_page: bool = True,
) -> Rejection | Failure | None:
    return verdict(
        status=status,
        content_type=content_type,
        body=body,
        retry_after=retry_after,
        min_body_bytes=least,
        is_page=is_page,
    )


def kind_of(found: Rejection | Failure | None) -> int | None:
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("status", "retry_after", "body", "kind"),
    [
        (200, 0, TEXT, None),
        (204, 0, b"", None),
        (200, 0, b"", GARBAGE),
        (200, 0, b" \r\n", GARBAGE),
        (206, 0, TEXT, None),
        (200, 0, CHALLENGE, BLOCKED),
        (403, 0, TEXT, BLOCKED),
        (403, 9, b"", BLOCKED),
        (429, 0, b"", BLOCKED),
        (429, 60, b"", BLOCKED),
        (503, 0, b"", SERVER),
        (504, 0, TEXT, SERVER),
        (503, 30, b"", BLOCKED),
        (504, 30, b"", BLOCKED),
        (503, 0, CHALLENGE, BLOCKED),
        (504, 0, CHALLENGE, BLOCKED),
        (500, 30, CHALLENGE, SERVER),
        (502, 0, b"", SERVER),
        (599, 0, b"", SERVER),
        (400, 0, b"", CLIENT),
        (401, 0, b"", CLIENT),
        (404, 0, CHALLENGE, CLIENT),
        (410, 0, b"", CLIENT),
        (451, 0, b"", CLIENT),
    ],
)
def test_status_retry_after_and_challenge_decide(status: int, retry_after: int, body: bytes, kind: int | None) -> None:
    found = judged(status, body, retry_after=retry_after)
    # The numbers of the two enumerations overlap: BLOCKED is a rejection, the others are failures.
    assert (type(found), kind_of(found)) == (type(None) if kind is None else OF_KIND[kind], kind)
    if isinstance(found, Rejection):
        assert found.retry_after_seconds == retry_after
        assert found.reason


def test_too_little_html_is_garbage_and_the_reason_gives_both_numbers() -> None:
    found = judged(body=b"<p>hi</p>", least=500)
    assert found == Rejection(GARBAGE, "9 bytes of HTML where 500 are the least")
    assert judged(body=b"x" * 500, least=500) is None
    assert judged(body=b"", least=1) is not None
    assert judged(body=b"x", least=0) is None


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/xml", "image/png", "text/xml"])
def test_only_html_is_judged_by_its_content(content_type: str) -> None:
    assert judged(body=b"{}", content_type=content_type, least=500) is None
    assert judged(body=CHALLENGE, content_type=content_type) is None


@pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml", ""])
def test_html_by_any_name_is(content_type: str) -> None:
    assert kind_of(judged(body=b"x", content_type=content_type, least=2)) == GARBAGE


def test_robots_files_and_the_like_are_judged_by_status_only() -> None:
    assert judged(body=b"", least=500, is_page=False) is None
    assert judged(body=CHALLENGE, is_page=False) is None
    assert kind_of(judged(403, is_page=False)) == BLOCKED
    assert kind_of(judged(404, is_page=False)) == CLIENT


@pytest.mark.parametrize(
    "marker",
    [
        b"cf-challenge",
        b'class="g-recaptcha"',
        b"h-captcha",
        b"_Incapsula_Resource",
        b"px-captcha",
        b"Solve the CAPTCHA",
    ],
)
def test_a_small_page_of_scripts_with_a_marker_is_a_challenge(marker: bytes) -> None:
    wall = wall_in(b"<script>x</script><div " + marker + b">one moment</div>" + marker)
    assert wall is not None
    assert wall.kind == "blocked"


def test_a_normal_page_that_has_a_captcha_somewhere_is_not() -> None:
    form = b'<script src=recaptcha.js></script><form><div class="g-recaptcha"></div></form>'
    assert wall_in(TEXT * 2 + form) is None
    assert wall_in(form) is not None
    assert wall_in(form + b"<script>" + b"x" * 5000 + b"</script>") is not None
    assert wall_in(form + b"<!--" + b"x" * 5000 + b"-->") is not None
    assert wall_in(form + b"<script>" + b" " * HOSTILE_BYTES + b"</script>") is not None
    assert wall_in(b"<p>captcha without a script</p>") is None
    assert wall_in(b"<script></script>nothing said") is None


@pytest.mark.parametrize(
    "hostile",
    [
        b"<script ",
        b"<!--",
        b"<",
        b"<head>",
        b"<style",
        b"</script",
        b"<template><noscript>",
        b"<!-- <script ",
        b"<script>",
        b"<!-->",
        b"<head></hea",
    ],
)
def test_a_hostile_page_is_judged_in_linear_time(hostile: bytes) -> None:
    body = (b"captcha <script>" + hostile * HOSTILE_BYTES)[:HOSTILE_BYTES]
    # The first page of a process compiles the signatures.
    wall_in(b"captcha <script>")
    begun = time.thread_time()
    wall_in(body)
    # What is quadratic took 130 ms and more, what is linear takes 11 at most.
    assert time.thread_time() - begun < 0.06


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", 0),
        ("   ", 0),
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("99999999999999999999", MAX_RETRY_AFTER),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("²", 0),
        ("\udcff", 0),
        (format_datetime(datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC), usegmt=True), 90),
        ("Thu, 01 Jan 2026 01:01:30 +0100", 90),
        ("Thu, 01 Jan 2026 00:01:30", 90),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", MAX_RETRY_AFTER),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", 0),
        ("Mon, 01 Jan 2024 99999999999:00:00 GMT", 0),
        ("Mon, 01 Jan 99999 00:00:00 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: int) -> None:
    assert retry_after_seconds(value, now=NOW) == seconds


@settings(deadline=None, max_examples=80)
@given(
    st.text(max_size=40)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,12} [JFMASOND][a-z]{2} -?\d{1,12} \d{1,12}:\d{1,9}(:\d{1,9})? ?[-+]?\w{1,20}")
)
@example("Thu, 01 Jan 0000 00:00:00 GMT")
def test_no_header_breaks_the_fetcher(value: str) -> None:
    assert 0 <= retry_after_seconds(value, now=NOW) <= MAX_RETRY_AFTER


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("text/html", ("text/html", "")),
        ("Text/HTML; Charset=UTF-8", ("text/html", "utf-8")),
        ('text/html; charset="ISO-8859-1"; x=y', ("text/html", "iso-8859-1")),
        ("text/html;charset='utf-8'", ("text/html", "utf-8")),
        ("text/html; x=charset; charset = koi8-r", ("text/html", "koi8-r")),
        ("", ("", "")),
        (";", ("", "")),
        ("text/html; charset", ("text/html", "")),
        ("text/h\udcfftml", ("", "")),
        ("text/html\x00", ("", "")),
        ("a/" + "b" * 500, ("a/" + "b" * 98, "")),
    ],
)
def test_a_content_type_is_read_as_sites_write_it(header: str, found: tuple[str, str]) -> None:
    assert media_type(header) == found


def test_foreign_text_is_cut_and_cleaned() -> None:
    assert plain("a\x00b\udcffc" + "x" * 1000) == "ab?c" + "x" * 495


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("/new", Moved("http://shop.test/new")),
        ("new?b=1#part", Moved("http://shop.test/a/new?b=1")),
        ("http://shop.test:80/x", Moved("http://shop.test:80/x")),
        ("HTTP://SHOP.test/x", Moved("http://SHOP.test/x")),
        ("https://shop.test/x", Moved("https://shop.test/x")),
        ("//shop.test/x", Moved("http://shop.test/x")),
        (" /spaced ", Moved("http://shop.test/spaced")),
        ("/caf\udcc3\udca9", Moved("http://shop.test/caf%C3%A9")),
        ("/a b\x00", Moved("http://shop.test/a%20b%00")),
        ("", None),
        ("   ", None),
        ("http://other.test/", None),
        ("http://shop.test:8080/", None),
        ("http://127.0.0.1/", None),
        ("http://169.254.169.254/latest/", None),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("http://[bad/", None),
        ("http://shop.test:x/", None),
        ("http://shop.test.evil.test/", None),
        ("http://shop.test@evil.test/", None),
    ],
)
def test_a_redirect_stays_in_its_domain_or_fails(location: str, found: Moved | None) -> None:
    answer = follow("http://shop.test/a/b", domain="shop.test", status=302, location=location)
    if found is not None:
        assert answer == found
    else:
        assert isinstance(answer, Failure)
        assert answer.kind == FailureKind.FAILURE_KIND_REDIRECT


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_a_status_that_is_no_redirect_leads_nowhere(status: int) -> None:
    found = follow("http://shop.test/", domain="shop.test", status=status, location="/x")
    assert isinstance(found, Failure)
    assert str(status) in found.error


def test_a_redirect_that_leaves_says_which_domain_to_add() -> None:
    found = follow("http://shop.test/", domain="shop.test", status=301, location="http://Bücher.test:8080/x")
    assert isinstance(found, Failure)
    assert "add the domain xn--bcher-kva.test:8080" in found.error


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=50) | st.binary(max_size=50).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
@example("http://\ud800/")
@example("//[")
def test_any_location_is_somewhere_or_nowhere_and_fits_into_every_store(location: str) -> None:
    try:
        found = elsewhere("http://shop.test/a", location)
    except UnicodeEncodeError:
        # Only what no header can hold.
        assert any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in location)
        return
    assert found.location.isascii()
    assert "\x00" not in found.location


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("http://Shop.test/", "shop.test"),
        ("https://shop.test:443/", "shop.test"),
        ("https://shop.test:80/", "shop.test:80"),
        ("http://u:p@shop.test./", "shop.test"),
        ("http://[::1]:8/", "[::1]:8"),
        ("ftp://shop.test/", ""),
        ("http:///x", ""),
        ("http://shop.test:99999/", ""),
        ("http://ü..test/", ""),
    ],
)
def test_a_domain_is_found_in_a_url_or_nothing_is(url: str, domain: str) -> None:
    assert domain_of(url) == domain


PAGE_ORDER, CANARY = OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_CANARY
QUIET = (OrderKind.ORDER_KIND_ROBOTS, OrderKind.ORDER_KIND_SITEMAP, OrderKind.ORDER_KIND_PROBE)
TRANSPORT = (
    FailureKind.FAILURE_KIND_NETWORK,
    FailureKind.FAILURE_KIND_TIMEOUT,
    FailureKind.FAILURE_KIND_PROXY,
)


@pytest.mark.parametrize("kind", [kind for kind in FailureKind.values() if kind])
def test_transport_errors_blame_the_proxy_and_others_the_site(kind: FailureKind.ValueType) -> None:
    for order in (PAGE_ORDER, CANARY):
        found = outcome_of(Failure(kind, "e"), kind=order)
        if kind in TRANSPORT:
            assert found == Outcome.OUTCOME_PROXY_FAILED
        elif kind == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS:
            assert found == Outcome.OUTCOME_UNUSED
        else:
            assert found == Outcome.OUTCOME_SITE_FAILED
    for order in QUIET:
        assert outcome_of(Failure(kind, "e"), kind=order) in (Outcome.OUTCOME_SITE_FAILED, Outcome.OUTCOME_UNUSED)


def test_a_block_blames_the_pair_and_robots_fetches_blame_nobody() -> None:
    assert outcome_of(Rejection(BLOCKED, "r"), kind=PAGE_ORDER) == Outcome.OUTCOME_BLOCKED
    assert outcome_of(Rejection(GARBAGE, "r"), kind=PAGE_ORDER) == Outcome.OUTCOME_SITE_FAILED
    for order in QUIET:
        assert outcome_of(Rejection(BLOCKED, "r"), kind=order) == Outcome.OUTCOME_SITE_FAILED
    for good in (None, Moved("http://shop.test/x")):
        assert outcome_of(good, kind=PAGE_ORDER) == Outcome.OUTCOME_SUCCESS


ORDER = FetchRequested(
    task_id=7, attempt=2, url="http://shop.test/a", domain="shop.test", kind=PAGE_ORDER, parser="product", follow=True,
    batch="b", traceparent="00-1-2-01", min_body_bytes=10,
)  # fmt: skip
MADE = Try(started=NOW, response_ms=45, proxy_id=9)
GOOD = Page(status=200, body=TEXT, content_type="text/html", charset="utf-8", location="", retry_after="")
BARE = Page(status=429, body=b"no", content_type="text/html", charset="", location="/l", retry_after="7")
JUDGED: list[tuple[Judgement, type, str]] = [
    (None, PageFetched, "fetched"),
    (Rejection(BLOCKED, "r", 7), PageRejected, "blocked"),
    (Rejection(GARBAGE, "r"), PageRejected, "garbage"),
    (Rejection(RejectKind.REJECT_KIND_NEEDS_RENDER, "r"), PageRejected, "needs_render"),
    (Failure(SERVER, "e"), FetchFailed, "failed"),
    (Moved("http://shop.test/l"), FetchReturned, "redirected"),
]


@pytest.mark.parametrize(("found", "kind", "outcome"), JUDGED)
def test_every_judgement_becomes_one_fact_and_one_row(found: Judgement, kind: type, outcome: str) -> None:
    fact = facts.settled(ORDER, MADE, GOOD, found, body_key="k")
    assert type(fact) is kind
    assert (fact.task_id, fact.attempt, fact.domain, fact.traceparent) == (7, 2, "shop.test", "00-1-2-01")
    assert fact.started_time.ToSeconds() == NOW
    assert fact.http_status == 200
    assert facts.outcome_of(fact) == outcome
    assert outcome in OUTCOMES
    assert facts.told(fact)["status"] == 200
    row = facts.row(ORDER, MADE, GOOD, found)
    assert (row.task_id, row.attempt, row.verdict, row.http_status, row.body_key) == (7, 2, outcome, 200, "")
    assert bool(row.reason) == (found is not None)
    assert row.fetched_at == datetime.fromtimestamp(NOW, UTC)


def test_a_fetched_page_carries_what_the_parser_needs() -> None:
    fact = facts.settled(ORDER, MADE, GOOD, None, body_key="k")
    assert isinstance(fact, PageFetched)
    assert (fact.url, fact.kind, fact.parser, fact.follow, fact.batch) == (
        "http://shop.test/a", PAGE_ORDER, "product", True, "b",
    )  # fmt: skip
    assert (fact.body_key, fact.content_type, fact.charset, fact.size_bytes) == ("k", "text/html", "utf-8", len(TEXT))
    assert (fact.response_ms, fact.proxy_id) == (45, 9)


def test_an_unstarted_order_goes_back_with_reason_and_hold() -> None:
    fact = facts.returned(ORDER, Why.RETURN_REASON_NO_PROXY, hold_seconds=4.5)
    assert (fact.reason, fact.hold_seconds, facts.outcome_of(fact)) == (Why.RETURN_REASON_NO_PROXY, 4.5, "returned")
    assert not fact.HasField("started_time")


def test_an_answer_is_judged_as_what_the_order_wanted() -> None:
    assert judge(ORDER, GOOD, now=NOW) is None
    assert judge(ORDER, BARE, now=NOW) == Rejection(BLOCKED, "status 429", 7)
    failure = Failure(FailureKind.FAILURE_KIND_TIMEOUT, "t")
    assert judge(ORDER, failure, now=NOW) is failure
    small = Page(status=200, body=b"x", content_type="text/html", charset="", location="", retry_after="")
    assert isinstance(judge(ORDER, small, now=NOW), Rejection)
    robots = FetchRequested(url=ORDER.url, domain=ORDER.domain, kind=OrderKind.ORDER_KIND_ROBOTS, min_body_bytes=10)
    assert judge(robots, small, now=NOW) is None
    moved = Page(status=301, body=b"", content_type="", charset="", location="/l", retry_after="")
    assert judge(ORDER, moved, now=NOW) == Moved("http://shop.test/l")
