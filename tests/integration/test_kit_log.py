"""Log lines are JSON on standard error, one line each, with service and trace."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import logging
import structlog
from limpet.kit import tracing
from limpet.kit.log import setup_logging

setup_logging("fetcher", "INFO")
log = structlog.get_logger()
log.debug("unheard")
log.info("page_rejected", reason="two\\nlines", size=3, what={1, 2}.__class__)
with tracing.use("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
    log.warning("inside")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
logging.getLogger("library").info("unheard")
try:
    {}[1]
except KeyError:
    logging.getLogger("library").warning('said "%s"\\nand that', "this", exc_info=True)
"""


def lines() -> list[dict[str, object]]:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_every_line_is_json_with_the_service_the_trace_and_the_facts() -> None:
    rejected, inside, failed, library = lines()
    assert (rejected["event"], rejected["level"], rejected["service"]) == ("page_rejected", "info", "fetcher")
    assert (rejected["reason"], rejected["size"], rejected["what"]) == ("two\nlines", 3, "<class 'set'>")
    assert str(rejected["timestamp"]).endswith("Z")
    assert "trace_id" not in rejected
    assert inside["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert "trace_id" not in failed
    assert "ZeroDivisionError" in str(failed["exception"])
    assert library["event"] == 'said "this"\nand that'
    assert (library["logger"], library["level"], library["service"]) == ("library", "warning", "fetcher")
    assert "KeyError" in str(library["exception"])
