"""Everything that an OpenAPI document declares, asked for with whatever fits it and whatever does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import schemathesis
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder


def ask_everything(url: str, config: dict[str, Any]) -> tuple[set[str], list[str]]:
    """The operations that gave a good answer at least once, and what is wrong, each with a request that shows it."""
    schema = schemathesis.openapi.from_url(url, config=schemathesis.Config.from_dict(config))
    good, wrong = set(), []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(str(event))
        elif isinstance(event, events.ScenarioFinished):
            wrong += _complaints(event.recorder)
            answers = [one.response for one in event.recorder.interactions.values() if one.response is not None]
            if any(answer.status_code < 300 for answer in answers):
                good.add(event.recorder.label)
    return good, wrong


def _complaints(recorder: ScenarioRecorder) -> Iterator[str]:
    for checks in recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                yield f"{recorder.label}: {check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}"
