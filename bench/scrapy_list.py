"""Scrapy over a list of URLs: title, price and links of each page into JSON lines. Runs in its own environment."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess

SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
}


class ListSpider(scrapy.Spider):  # type: ignore[misc]
    """Fetches the given URLs and follows nothing."""

    name = "list"
    urls: list[str]

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:
            yield scrapy.Request(url)

    def parse(self, response: Any) -> Iterator[dict[str, Any]]:
        facts = json.loads(response.css('script[type="application/ld+json"]::text').get())
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "price": facts["offers"]["price"],
            "links": len({response.urljoin(href) for href in response.css("a::attr(href)").getall()}),
        }


def main() -> None:
    options = argparse.ArgumentParser(prog="scrapy_list.py", description=__doc__)
    options.add_argument("urls", type=Path, help="a file with one URL a line")
    options.add_argument("out", type=Path, help="the file for the items")
    given = options.parse_args()
    process = CrawlerProcess(SETTINGS | {"FEEDS": {str(given.out): {"format": "jsonlines", "overwrite": True}}})
    crawler = process.create_crawler(ListSpider)
    moments: dict[str, float] = {}
    for name, signal in (("opened", signals.spider_opened), ("closed", signals.spider_closed)):
        # Not weak: nothing else holds on to these functions.
        crawler.signals.connect(lambda key=name: moments.__setitem__(key, time.monotonic()), signal=signal, weak=False)
    process.crawl(crawler, urls=given.urls.read_text().split())
    process.start()
    print(json.dumps({"seconds": moments["closed"] - moments["opened"]}))


if __name__ == "__main__":
    main()
