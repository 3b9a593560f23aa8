"""What is asked of runs and their schedules over REST."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StringConstraints, model_validator

from limpet.scheduler.api.schemas import Body, Name, Priority, Zone, whole
from limpet.scheduler.canonical import BadUrl, Canonical, canonical
from limpet.scheduler.runs.listing import pattern
from limpet.scheduler.runs.start import Wish
from limpet.scheduler.store.runs import WISHES

MAX_START_PAGES = 1000
DEFAULT_LIST_PAGES = 1000
Share = Annotated[float, BeforeValidator(whole), Field(gt=0, le=1, allow_inf_nan=False)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=8192)]


def _pattern(text: str) -> str:
    pattern(text)
    return text


class RunOptions(Body):
    """How a run goes. The names are the columns."""

    start_pages: Annotated[list[Url], Field(min_length=1, max_length=MAX_START_PAGES)]
    on_failed_start_page: Literal["abort", "skip", "quorum"] = "abort"
    quorum: Share = 0.5
    allow_empty: StrictBool = False
    least_share: Share | None = None
    item_pattern: Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_pattern)] | None = (
        None
    )
    # For the pages that are found, and for the list pages; null is the domain's own.
    parser_name: Name | None = None
    list_parser_name: Name | None = None
    priority: Priority = 5
    max_retries: Annotated[int, BeforeValidator(whole), Field(ge=0, le=100)] = 3
    max_list_pages: Annotated[int, BeforeValidator(whole), Field(ge=1, le=100_000)] = DEFAULT_LIST_PAGES
    recrawl: StrictBool = False
    webhook_url: str | None = None

    def options(self) -> dict[str, Any]:
        return self.model_dump(include=set(WISHES))


class RunIn(RunOptions):
    # A domain.
    site: Name
    # The caller's own: the same request again gets the same run.
    run_id: UUID | None = None

    def wish(self, run_id: UUID, *, created_by: str) -> Wish:
        return Wish(
            run_id,
            self.site,
            [canonical(url) for url in self.start_pages],
            self.options(),
            created_by,
        )


class ScheduleOptions(RunOptions):
    # Five fields: minute, hour, day of the month, month, day of the week.
    cron: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")]
    zone: Zone = "UTC"
    is_active: StrictBool = True


class ScheduleIn(ScheduleOptions):
    name: Name
    site: Name

    @model_validator(mode="after")
    def _is_a_path(self) -> Self:
        if "/" in self.name:
            raise ValueError("name: must not have a slash in it")
        return self


def bad_start_page(urls: list[str], *, site: str) -> tuple[int, str] | None:
    """The first start page that cannot be one of the site, and why."""
    for index, url in enumerate(urls):
        try:
            target: Canonical = canonical(url)
        except BadUrl as error:
            return index, str(error)
        if target.domain != site:
            return index, f"is of {target.domain}, not of {site}"
    return None
