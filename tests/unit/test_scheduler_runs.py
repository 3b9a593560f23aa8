"""The rules of runs: gates, what a start page comes to, which links are wanted, when scheduled runs begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.scheduler.pagination import PageSeen, State, begin, heard
from limpet.scheduler.runs.cron import BadCron, next_time
from limpet.scheduler.runs.listing import ERROR_KEPT, FAILURES_KEPT, BadPattern, StartPage, items_of, pattern
from limpet.scheduler.runs.verdict import FailurePolicy, Gate, Outcome, Terms, is_over, refusal

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "http://shop.test/list"


def outcomes(*states: str, collected: int = 3) -> list[Outcome]:
    return [Outcome(f"{URL}/{number}", state, collected, None) for number, state in enumerate(states)]


def gate(pages: list[Outcome], terms: Terms, *, total: int = 10, last: int | None = None) -> Gate | None:
    closed = refusal(pages, terms, total=total, last=last)
    return closed.gate if closed is not None else None


@pytest.mark.parametrize(
    ("policy", "states", "over"),
    [
        ("abort", ("completed", "pending"), False),
        ("abort", ("failed", "pending"), True),
        ("skip", ("failed", "paginating"), False),
        ("skip", ("failed", "completed"), True),
        ("quorum", ("failed", "pending"), False),
        ("abort", ("completed", "completed"), True),
    ],
)
def test_s20_a_run_is_over_when_nothing_is_waited_for(
    policy: FailurePolicy, states: tuple[str, ...], *, over: bool
) -> None:
    assert is_over(outcomes(*states), Terms(policy)) is over


@pytest.mark.parametrize(
    ("terms", "states", "closed"),
    [
        (Terms(), ("completed", "completed"), None),
        (Terms(), ("completed", "failed"), Gate.MISSING),
        (Terms("skip"), ("completed", "failed"), None),
        (Terms("skip"), ("failed", "failed"), Gate.MISSING),
        (Terms("quorum", 0.5), ("completed", "failed"), None),
        (Terms("quorum", 0.6), ("completed", "failed"), Gate.MISSING),
        (Terms("quorum", 0.01), ("failed", "failed"), Gate.MISSING),
    ],
)
def test_s20_every_start_page_completes_unless_the_policy_bears_it(
    terms: Terms, states: tuple[str, ...], closed: Gate | None
) -> None:
    assert gate(outcomes(*states), terms) == closed


def test_s20_an_empty_start_page_closes_the_gate_unless_it_may_be_empty() -> None:
    pages = [*outcomes("completed"), *outcomes("completed", collected=0)]
    assert gate(pages, Terms()) == Gate.EMPTY
    assert gate(pages, Terms("skip")) == Gate.EMPTY
    assert gate(pages, Terms(allow_empty=True)) is None


@pytest.mark.parametrize(
    ("total", "last", "closed"), [(79, 100, Gate.SHRINK), (80, 100, None), (0, None, None), (500, 100, None)]
)
def test_s20_a_run_far_below_the_last_good_one_is_not_believed(
    total: int, last: int | None, closed: Gate | None
) -> None:
    assert gate(outcomes("completed"), Terms(least_share=0.8), total=total, last=last) == closed
    assert gate(outcomes("completed"), Terms(), total=total, last=last) is None


def start_page() -> StartPage:
    return StartPage(UUID(int=1), 1, URL, "pending", 0, 1, 1, 0, [], StartPage.paging_of(begin(URL)), None)


def read(page: StartPage, url: str, *links: Link, most: int = 100, says_empty: bool = False) -> bool:
    return page.read(url, links=links, item_urls=[], fingerprint=b"", says_empty=says_empty, http_status=200, most=most)


def following(url: str) -> Link:
    return Link(url=url, rel=LinkRel.LINK_REL_NEXT)


def test_s19_a_start_page_paginates_until_no_page_is_open() -> None:
    page = start_page()
    read(page, URL, following(f"{URL}?page=2"))
    assert (page.state, page.next_urls) == ("paginating", [f"{URL}?page=2"])
    page.asked(1)
    assert (page.state, page.pages, page.open_pages) == ("paginating", 2, 1)
    page.next_urls = []
    read(page, f"{URL}?page=2")
    page.asked(0)
    assert (page.state, page.open_pages) == ("completed", 0)


def test_s19_a_page_that_is_not_there_ends_a_list_and_any_other_loss_breaks_it() -> None:
    for status, url, state in (
        (404, f"{URL}?page=2", "completed"),
        (404, URL, "failed"),
        (0, f"{URL}?page=2", "failed"),
    ):
        page = start_page()
        read(page, URL, following(f"{URL}?page=2"))
        page.asked(1)
        page.lost(url, error="no", http_status=status, most=100)
        assert page.state == state, (status, url)


@pytest.mark.parametrize(
    ("status", "blocked", "state"),
    [(500, False, "completed"), (200, False, "completed"), (403, True, "failed"), (0, False, "failed")],
)
def test_s19_a_page_that_was_only_tried_may_be_answered_with_anything_but_a_refusal(
    status: int, state: str, *, blocked: bool
) -> None:
    page = start_page()
    read(page, URL, following(f"{URL}?page=2"))
    page.asked(1)
    page.paging["guess"] = f"{URL}?page=2"
    page.lost(f"{URL}?page=2", error="no", http_status=status, blocked=blocked, most=100)
    assert page.state == state


def test_s20_what_a_page_past_the_end_shows_is_not_of_its_list() -> None:
    page = start_page()
    assert read(page, URL, following(f"{URL}?page=2")) is True
    assert read(page, f"{URL}?page=2", says_empty=True) is False
    assert page.state == "completed"


def test_s19_failures_are_counted_and_the_last_ones_kept() -> None:
    page = start_page()
    for number in range(FAILURES_KEPT + 3):
        page.stumbled(at=NOW, proxy_id=number, error="x" * 10_000)
    assert page.failure_count == FAILURES_KEPT + 3
    assert [one["proxy_id"] for one in page.failures] == list(range(3, FAILURES_KEPT + 3))
    assert page.failures[0] == {"time": NOW.isoformat(), "proxy_id": 3, "error": "x" * ERROR_KEPT}


def test_s20_a_list_past_its_limit_fails() -> None:
    page = start_page()
    read(page, URL, following(f"{URL}?page=2"), most=1)
    assert (page.state, page.next_urls) == ("failed", [])


def test_s19_links_to_items_of_the_site_are_wanted_or_those_that_match() -> None:
    item = LinkKind.LINK_KIND_ITEM
    links = [
        Link(url="http://shop.test/p/1", kind=item),
        Link(url="http://shop.test/p/1#top", kind=item),
        Link(url="http://other.test/p/2", kind=item),
        Link(url="http://shop.test/about", kind=LinkKind.LINK_KIND_OTHER),
        Link(url="mailto:us", kind=item),
    ]
    assert [one.url for one in items_of(links, domain="shop.test", wanted=None).values()] == ["http://shop.test/p/1"]
    assert [one.url for one in items_of(links, domain="shop.test", wanted="/a.out$").values()] == [
        "http://shop.test/about"
    ]
    with pytest.raises(BadPattern):
        pattern("(")


def test_s19_a_list_that_leads_back_ends_and_its_state_survives_json() -> None:
    def seen(url: str, *links: Link) -> PageSeen:
        return PageSeen(url, links, "good", [], b"", says_empty=False, blocked=False, http_status=200)

    step = heard(begin(URL), seen(URL, following(f"{URL}/2")))
    assert (step.next_urls, step.finished) == ([f"{URL}/2"], False)
    kept = State.from_json(step.state.to_json())
    assert kept == step.state
    back = heard(kept, seen(f"{URL}/2", following(URL)))
    assert (back.next_urls, back.finished) == ([], True)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "then"),
    [
        ("30 4 * * *", "UTC", NOW, NOW.replace(day=2, hour=4, minute=30)),
        ("30 4 * * *", "Europe/Berlin", NOW, NOW.replace(day=2, hour=3, minute=30)),
        # Summer time began in the night before: by the clock on the wall it stays half past four.
        (
            "30 4 * * *",
            "Europe/Berlin",
            datetime(2026, 3, 28, 12, tzinfo=UTC),
            datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
        ),
        ("0 * * * *", "UTC", NOW + timedelta(days=3, minutes=1), NOW + timedelta(days=3, hours=1)),
    ],
)
def test_s19_a_scheduled_run_keeps_to_the_clock_of_its_zone(
    cron: str, zone: str, after: datetime, then: datetime
) -> None:
    assert next_time(cron, zone_name=zone, after=after) == then


@pytest.mark.parametrize("cron", ["", "every day", "99 * * * *", "0 0 30 2 *"])
def test_s19_what_names_no_time_is_refused(cron: str) -> None:
    with pytest.raises(BadCron):
        next_time(cron, zone_name="UTC", after=NOW)
