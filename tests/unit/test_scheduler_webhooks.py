"""Webhooks without a network: signatures, what is said, what becomes of a try, which URLs are taken."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from limpet.kit.rest import Problem
from limpet.scheduler.api.webhooks import checked_webhook_url, need_webhooks
from limpet.scheduler.redelivery import MAX_TRIES, RETRY_CAP, Answer, finish
from limpet.scheduler.settings import Settings
from limpet.scheduler.signature import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    WINDOW_SECONDS,
    Signer,
    endpoint_of,
    verify,
)
from limpet.scheduler.store.webhooks import Claim
from limpet.scheduler.webhook_event import make_delivery, ordered_id, webhook_body
from tests.support.members import ROOT

SIGNER = Signer(b"m" * 32)
ENDPOINT = "https://hooks.test:443"
ID = UUID("01900000-0000-7000-8000-000000000001")
NOW = 1_700_000_000.7
MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def signed(body: bytes = b"{}") -> dict[str, str]:
    return SIGNER.headers(ENDPOINT, delivery_id=ID, body=body, at=NOW)


def test_s18_a_signature_is_the_hmac_of_id_timestamp_and_body() -> None:
    """Numbers from `openssl dgst -sha256 -hmac`, so that what receivers must do cannot change by mistake."""
    secret = SIGNER.secret_of(ENDPOINT)
    assert secret == "450d3fd781f9d2ac0ab86172e399f1d83778c96c2d60712923b813e627771fcd"
    assert signed(b'{"a":1}') == {
        ID_HEADER: str(ID),
        TIMESTAMP_HEADER: "1700000000",
        SIGNATURE_HEADER: "v1=afd7a7307165a4d04ede0827355812892f165080486a427034973c8271e27a7d",
    }


def test_s18_a_receiver_takes_what_we_signed_and_nothing_that_was_changed() -> None:
    secret, headers = SIGNER.secret_of(ENDPOINT), signed(b"body")
    assert verify(secret, headers, b"body", now=NOW)
    assert not verify(secret, headers, b"body!", now=NOW)
    assert not verify(SIGNER.secret_of("https://other.test:443"), headers, b"body", now=NOW)
    for name, value in (
        (ID_HEADER, "another\udcff"),
        (TIMESTAMP_HEADER, "1700000001"),
        (SIGNATURE_HEADER, "v1=é\udcff"),
    ):
        assert not verify(secret, {**headers, name: value}, b"body", now=NOW)
        assert not verify(secret, {key: text for key, text in headers.items() if key != name}, b"body", now=NOW)


@pytest.mark.parametrize(("passed", "good"), [(0, True), (WINDOW_SECONDS, True), (WINDOW_SECONDS + 1, False)])
def test_s18_a_recording_is_refused_after_five_minutes(passed: int, good: bool) -> None:
    assert WINDOW_SECONDS == 300
    for now in (int(NOW) + passed, int(NOW) - passed):
        assert verify(SIGNER.secret_of(ENDPOINT), signed(), b"{}", now=now) is good


@pytest.mark.parametrize("timestamp", ["", "-1", "1e9", "nan", "١٧٠٠", "9" * 400])
def test_a_timestamp_that_is_none_is_refused(timestamp: str) -> None:
    assert not verify(SIGNER.secret_of(ENDPOINT), {**signed(), TIMESTAMP_HEADER: timestamp}, b"{}", now=NOW)


def test_s18_the_check_that_the_docs_give_to_receivers_is_the_right_one() -> None:
    code = (ROOT / "docs/webhooks.md").read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    headers = SIGNER.headers(ENDPOINT, delivery_id=ID, body=b"body", at=time.time())
    assert names["is_from_limpet"](SIGNER.secret_of(ENDPOINT), headers, b"body")
    assert not names["is_from_limpet"](SIGNER.secret_of(ENDPOINT), headers, b"body!")
    assert not names["is_from_limpet"](SIGNER.secret_of(ENDPOINT), signed(b"body"), b"body")


def test_s18_endpoints_share_no_secret_and_the_spelling_of_one_does_not_matter() -> None:
    assert endpoint_of("https://Hooks.test./a?b") == endpoint_of("HTTPS://hooks.test:443/c") == ENDPOINT
    assert endpoint_of("http://[::1]/x") == "http://[::1]:80"
    others = ("http://hooks.test", "https://hooks.test:8443", "https://other.test")
    secrets = {SIGNER.secret_of(endpoint_of(url)) for url in (*others, "https://hooks.test")}
    assert len(secrets) == 4
    assert Signer(b"n" * 32).secret_of(ENDPOINT) != SIGNER.secret_of(ENDPOINT)
    assert "m" * 32 not in repr(SIGNER)


def test_a_body_has_id_event_time_and_subject() -> None:
    body = webhook_body(
        "task.completed", {"task_id": 7, "every": timedelta(days=1)}, delivery_id=ID, occurred_at=MOMENT
    )
    assert json.loads(body) == {
        "id": str(ID),
        "event": "task.completed",
        "occurred_at": "2030-01-02T03:04:05Z",
        "task": {"task_id": 7, "every": "P1D"},
    }
    with pytest.raises(ValueError, match="about no task"):
        webhook_body("page.seen", {}, delivery_id=ID, occurred_at=MOMENT)


def test_a_delivery_carries_its_own_id_and_endpoint() -> None:
    made = make_delivery("http://hooks.test/x?y", "batch.completed", {"name": "b"}, occurred_at=MOMENT, rng=Random(1))
    assert json.loads(made.body)["id"] == str(made.delivery_id)
    assert (made.url, made.endpoint, made.event) == ("http://hooks.test/x?y", "http://hooks.test:80", "batch.completed")


LONG = 10**12


@given(st.integers(0, LONG), st.integers(2, LONG), st.integers())
def test_ids_follow_time(start: int, gap: int, seed: int) -> None:
    rng = Random(seed)
    early, late = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start, start + gap))
    first, again, last = ordered_id(early, rng=rng), ordered_id(early, rng=rng), ordered_id(late, rng=rng)
    assert (first.version, first.variant) == (7, ID.variant)
    assert first != again
    assert first < last


def claim(tries: int) -> Claim:
    return Claim(ID, "http://hooks.test/", "http://hooks.test:80", "task.completed", "{}", tries)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    done = finish(claim(MAX_TRIES), Answer(status), rng=Random(1))
    assert (done.state, done.last_status, done.last_error) == ("delivered", status, None)


@pytest.mark.parametrize(
    "answer", [Answer(500), Answer(302), Answer(404), Answer(429), Answer(error="reset", late=True)]
)
def test_s18_anything_else_is_tried_again_ever_later_and_then_dead_with_its_error(answer: Answer) -> None:
    waits = []
    for tries in range(1, MAX_TRIES):
        done = finish(claim(tries), answer, rng=Random(tries))
        assert (done.state, done.tries) == ("pending", tries)
        waits.append(done.wait)
    assert 7.5 <= waits[0] <= 12.5
    assert all(low < high for low, high in zip(waits[:6:2], waits[2:8:2], strict=True))
    assert max(waits) <= RETRY_CAP
    assert waits[-1] > RETRY_CAP / 2
    last = finish(claim(MAX_TRIES), answer, rng=Random(1))
    assert (last.state, last.last_status) == ("dead", answer.status)
    assert last.last_error == (answer.error or f"answered {answer.status}")


@pytest.mark.parametrize("answer", [Answer(410), Answer(error="is 10.0.0.1", forbidden=True)])
def test_s18_a_forbidden_address_and_a_receiver_that_is_gone_are_dead_at_once(answer: Answer) -> None:
    assert finish(claim(1), answer, rng=Random(1)).state == "dead"


@pytest.mark.parametrize(
    "url", ["http://hooks.test", "https://hooks.test:8443/a/b?c=d%20e", "HTTP://Hooks.Test/", "http://[2001:db8::1]/x"]
)
def test_a_good_url_is_taken_as_it_is(url: str) -> None:
    assert checked_webhook_url(url) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://hooks.test/", "http"),
        ("hooks.test/x", "http"),
        ("javascript:alert(1)", "http"),
        ("", "printable"),
        ("http:///x", "host"),
        ("http://:80/x", "host"),
        ("http://a b.test/", "printable"),
        ("http://a.test/\r\nX-Evil: 1", "printable"),
        ("http://a.test/\x00", "printable"),
        ("http://a.test\\@b.test/", "printable"),
        ("http://bücher.test/", "printable"),
        ("http://ann@a.test/", "password"),
        ("http://ann:pw@a.test/", "password"),
        ("http://@a.test/", "password"),
        ("http://a.test:0/", "port"),
        ("http://a.test:99999/", "ort"),
        ("http://[::1/", "IPv6"),
        ("http://a.test/" + "x" * 2048, "2048"),
    ],
)
def test_a_bad_url_is_refused_by_name(url: str, why: str) -> None:
    with pytest.raises(Problem) as refused:
        checked_webhook_url(url, field="webhook.url")
    (error,) = refused.value.errors
    assert error["field"] == "webhook.url"
    assert why in error["message"]
    assert refused.value.status == 422


@given(st.text(max_size=60).map(lambda rest: f"http://{rest}"))
def test_what_is_taken_has_an_endpoint(text: str) -> None:
    try:
        url = checked_webhook_url(text)
    except Problem:
        return
    assert endpoint_of(url).startswith("http://")


def test_without_a_master_secret_no_webhook_can_be_asked_for() -> None:
    need_webhooks(SIGNER)
    with pytest.raises(Problem, match="LIMPET_WEBHOOK_SECRET"):
        need_webhooks(Signer(b""))


def test_a_master_secret_that_can_be_guessed_is_refused() -> None:
    def made(**given: SecretStr) -> Settings:
        needed = {
            "pg_dsn": SecretStr("postgresql:///x"),
            "api_keys": SecretStr("admin:" + "0" * 64),
            "page_store": "file:///pages",
        }
        return Settings.model_validate({**needed, **given})

    assert made().webhook_secret == SecretStr("")
    assert made(webhook_secret=SecretStr("s" * 32))
    with pytest.raises(ValidationError, match="32 characters"):
        made(webhook_secret=SecretStr("short"))
