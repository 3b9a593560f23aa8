"""Who owns a path, and how many descriptions become one."""

from __future__ import annotations

from typing import Any

import pytest

from limpet.health.description import merge
from limpet.health.routes import owner_of


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/api/admin/tasks", "scheduler"),
        ("/api/admin/tasks/12/attempts", "scheduler"),
        ("/api/admin/tasks/12/explain", "scheduler"),
        ("/api/admin/explain", "scheduler"),
        ("/api/admin/domains/example.org", "scheduler"),
        ("/api/admin/webhooks/deliveries", "scheduler"),
        ("/api/admin/domain-proxies/example.org", "proxy-broker"),
        ("/api/admin/dead-letters/7/replay", "scheduler"),
        ("/api/admin/runs/x/start-pages", "scheduler"),
        ("/api/admin/run-schedules/nightly", "scheduler"),
        ("/api/sites/configs", "scheduler"),
        ("/api/admin/proxies", "proxy-broker"),
        ("/api/admin/proxy-budgets/domain/example.org", "proxy-broker"),
        ("/api/admin/proxy-alerts", "proxy-broker"),
        ("/api/items", "parser"),
        ("/api/items-old", None),
        ("/api/admin/errors", None),
        ("/health", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_path_belongs_to_the_service_with_the_longest_whole_prefix(path: str, owner: str | None) -> None:
    assert owner_of(path) == owner


def document(path: str, schema: dict[str, Any]) -> dict[str, Any]:
    answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "paths": {path: {"get": {"responses": {"200": answer}}}, "/internal": {"get": {}}},
        "components": {"schemas": {"Answer": schema}},
    }


def test_two_services_may_use_one_schema_name_for_different_things() -> None:
    own = document("/health", {"type": "string"})
    merged = merge(own, {"parser": document("/api/items", {"type": "object"})}, missing=["scheduler"])
    assert set(merged["paths"]) == {"/health", "/internal", "/api/items"}
    assert merged["components"]["schemas"] == {"Answer": {"type": "string"}, "parser.Answer": {"type": "object"}}
    operation = merged["paths"]["/api/items"]["get"]
    assert operation["tags"] == ["parser"]
    reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert reference == "#/components/schemas/parser.Answer"
    assert "scheduler" in merged["info"]["description"]


def test_a_path_is_described_only_by_the_service_that_owns_it() -> None:
    own = document("/health", {})
    stranger = document("/api/items", {})
    assert "/api/items" not in merge(own, {"scheduler": stranger}, missing=[])["paths"]
