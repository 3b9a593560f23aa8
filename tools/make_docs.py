"""Write the pages that come from code: states, configuration, subjects. `--check` fails when one is stale."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from google.protobuf.message import Message
from pydantic_settings import BaseSettings

from limpet.contracts.events.v1 import beat_pb2, domain_pb2, fetch_pb2, page_pb2, parse_pb2, proxy_pb2, watch_pb2
from limpet.kit.bus import subject_of
from limpet.kit.streams import CONSUMERS, STREAMS
from limpet.scheduler.lifecycle import TRANSITIONS, Status
from tools.chart_readme import readme
from tools.dashboards import pages as dashboards

ROOT = Path(__file__).parent.parent
MODULES = (fetch_pb2, page_pb2, parse_pb2, domain_pb2, proxy_pb2, beat_pb2, watch_pb2)
SERVICES = ("scheduler", "fetcher", "parser", "proxy_broker", "health")


def states() -> str:
    lines = ["# States of a task", "", "Generated from `limpet.scheduler.lifecycle` by `make docs`.", ""]
    lines += ["```mermaid", "stateDiagram-v2"]
    for event, rule in TRANSITIONS.items():
        for source in sorted(rule.sources):
            lines += [f"    {source.value} --> {target.value}: {event}" for target in sorted(rule.targets)]
    lines += ["```", "", "| event | from | to | meaning |", "|---|---|---|---|"]
    for event, rule in TRANSITIONS.items():
        sources = ", ".join(status.value for status in Status if status in rule.sources)
        targets = ", ".join(status.value for status in Status if status in rule.targets)
        lines.append(f"| `{event}` | {sources} | {targets} | {rule.meaning} |")
    return "\n".join(lines) + "\n"


def configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "Generated from each service's `Settings` by `make docs`. All of it comes from the environment.",
        "",
    ]
    for service in SERVICES:
        settings: type[BaseSettings] = importlib.import_module(f"limpet.{service}.settings").Settings
        lines += [f"## {service.replace('_', '-')}", "", "| variable | default | what |", "|---|---|---|"]
        for name, field in sorted(settings.model_fields.items()):
            default = (
                "required" if field.is_required() else "its own" if field.default_factory else f"`{field.default}`"
            )
            lines.append(f"| `LIMPET_{name.upper()}` | {default} | {field.description} |")
        lines.append("")
    return "\n".join(lines)


def subjects() -> str:
    lines = [
        "# The contract",
        "",
        "Every event and RPC of Limpet. `make proto` generates `gen/`; `make lint` checks both.",
    ]
    lines += ["", "| message | subject |", "|---|---|"]
    for module in MODULES:
        for name in module.DESCRIPTOR.message_types_by_name:
            kind: type[Message] = getattr(module, name)
            if subject := subject_of(kind):
                lines.append(f"| `{name}` | `{subject}` |")
    lines += ["", "| stream | subjects | retention |", "|---|---|---|"]
    lines += [f"| `{s.name}` | {', '.join(f'`{x}`' for x in s.subjects)} | {s.retention.value} |" for s in STREAMS]
    lines += ["", "| consumer | stream | subjects | ack wait |", "|---|---|---|---|"]
    lines += [
        f"| `{c.name}` | `{c.stream}` | {', '.join(f'`{x}`' for x in c.subjects)} | {c.ack_wait:g} s |"
        for c in CONSUMERS
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    pages = {
        "docs/states.md": states(),
        "docs/configuration.md": configuration(),
        "proto/README.md": subjects(),
        "deploy/helm/limpet/README.md": readme(),
        **dashboards(),
    }
    stale = [name for name, text in pages.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    if "--check" in sys.argv:
        if stale:
            raise SystemExit(f"{', '.join(stale)} differ from the code; run `make docs`")
        return
    for name in stale:
        (ROOT / name).write_text(pages[name])
        sys.stdout.write(f"wrote {name}\n")


if __name__ == "__main__":
    main()
