"""H5: every value is in the schema, has words in values.yaml, and stands in the README."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.helm import CHART
from tools.chart_readme import readme, rows


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Leaves of the values; an empty mapping is one."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from paths(inner, f"{prefix}{key}.")
    else:
        yield prefix.rstrip(".")


def schema_paths(schema: dict[str, Any], whole: dict[str, Any], prefix: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = whole["definitions"][schema["$ref"].rpartition("/")[2]]
    if not schema.get("properties"):
        yield prefix.rstrip(".")
    for key, inner in schema.get("properties", {}).items():
        yield from schema_paths(inner, whole, f"{prefix}{key}.")


def test_h5_schema_and_values_have_the_same_names() -> None:
    values = set(paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    whole = json.loads((CHART / "values.schema.json").read_text())
    known = set(schema_paths(whole, whole))
    free = {"global", "metrics.dashboards.labels", "parser.settings"}
    assert {
        path for path in values if path not in known and not any(path.startswith(f"{name}.") for name in free)
    } == set()
    optional = {path for path in known if ".resources." in path} | free
    assert known - values - optional == set()


def test_h5_no_object_of_the_schema_takes_unknown_names() -> None:
    whole = json.loads((CHART / "values.schema.json").read_text())

    def look(schema: Any) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and "properties" in schema and "required" not in schema:
                assert schema["additionalProperties"] is False, schema
            for key, inner in schema.items():
                if key not in ("if", "then"):
                    look(inner)

    look(whole)


def test_h5_every_value_has_its_words() -> None:
    values = set(paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    described = {row.path: row.words for row in rows((CHART / "values.yaml").read_text())}
    lacking = [
        path
        for path in values
        if not any(described.get(path[: len(known)]) for known in described if path.startswith(known))
    ]
    assert lacking == []


def test_h5_the_readme_is_fresh() -> None:
    assert (CHART / "README.md").read_text() == readme()
