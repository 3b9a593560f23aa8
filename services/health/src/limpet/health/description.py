"""Many OpenAPI documents made into one: each path from its owner, no two schemas under one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from limpet.health.routes import owner_of

SCHEMAS: Final = "#/components/schemas/"
METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})

Document = dict[str, Any]


def merge(own: Document, others: Mapping[str, Document], *, missing: Iterable[str]) -> Document:
    """`others` by service name. Only what the front door really passes on to that service is described."""
    paths: dict[str, Any] = {}
    components: dict[str, dict[str, Any]] = {}
    for service, document in {"health": own, **others}.items():
        renamed = _renames(service, document, components)
        for path, item in _part(document, "paths").items():
            if (owner_of(path) or "health") == service:
                paths[path] = _tagged(_rewritten(item, renamed), service)
        for kind, entries in _part(document, "components").items():
            known = components.setdefault(kind, {})
            for name, entry in entries.items():
                known[renamed.get(name, name) if kind == "schemas" else name] = _rewritten(entry, renamed)
    info = {"title": "Limpet", "version": own["info"]["version"], "description": _about(sorted(missing))}
    return {"openapi": own["openapi"], "info": info, "paths": dict(sorted(paths.items())), "components": components}


def _about(missing: list[str]) -> str:
    about = "Every service behind the front door, as one."
    return f"{about} Not described now, because they are away: {', '.join(missing)}." if missing else about


def _renames(service: str, document: Document, components: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A schema that another service holds under the same name, but that looks different, gets the service's name."""
    known = components.get("schemas", {})
    schemas = _part(_part(document, "components"), "schemas")
    return {name: f"{service}.{name}" for name, schema in schemas.items() if name in known and known[name] != schema}


def _rewritten(node: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_rewritten(item, renamed) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: _rewritten(value, renamed) for key, value in node.items()}
    target = out.get("$ref")
    if isinstance(target, str) and target.startswith(SCHEMAS):
        name = target.removeprefix(SCHEMAS)
        out["$ref"] = SCHEMAS + renamed.get(name, name)
    return out


def _tagged(item: Any, service: str) -> Any:
    """Every operation says which service answers it."""
    return {
        method: {**operation, "tags": [service]} if method in METHODS else operation
        for method, operation in item.items()
    }


def _part(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}
