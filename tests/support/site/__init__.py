"""Real sites on loopback that remember every request, so that tests can judge a crawler from the server's side."""

from __future__ import annotations

from tests.support.site.apart import Apart, serve_apart
from tests.support.site.plain import Plain
from tests.support.site.requests import Record, RequestLog
from tests.support.site.shop import Shop

__all__ = ["Apart", "Plain", "Record", "RequestLog", "Shop", "serve_apart"]
