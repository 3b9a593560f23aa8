"""Scrapy over a list of URLs, or from one by its links: title, price and links of each page into JSON lines. Runs in its own
environment."""

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
    """Fetches the given URLs, and with `follow` what they lead to on the same host."""

    name = "list"
    urls: list[str]
    proxy: str = ""
    download_only: bool = False
    follow: bool = False

    async def start(self) -> AsyncIterator[Any]:
        meta = {"proxy": self.proxy} if self.proxy else {}
        for url in self.urls:
            yield scrapy.Request(url, meta=dict(meta))

    def parse(self, response: Any) -> Iterator[Any]:
        if self.download_only:
            yield {"url": response.url}
            return
        links = {response.urljoin(href) for href in response.css("a::attr(href)").getall()}
        if text := response.css('script[type="application/ld+json"]::text').get():
            facts = json.loads(text)
            yield {
                "url": response.url,
                "title": response.css("title::text").get(),
                "price": facts["offers"]["price"],
                "links": len(links),
            }
        if self.follow:
            # What was asked for before is dropped by the scheduler's own filter.
            for link in links:
                yield scrapy.Request(link)


def main() -> None:
    options = argparse.ArgumentParser(prog="scrapy_list.py", description=__doc__)
    options.add_argument("urls", type=Path, help="a file with one URL a line")
    options.add_argument("out", type=Path, help="the file for the items")
    options.add_argument("--proxy", default="", help="URL of a proxy to go through")
    options.add_argument("--download-only", action="store_true", help="take nothing from the pages but their address")
    options.add_argument("--follow", action="store_true", help="follow links from the URLs")
    given = options.parse_args()
    process = CrawlerProcess(SETTINGS | {"FEEDS": {str(given.out): {"format": "jsonlines", "overwrite": True}}})
    crawler = process.create_crawler(ListSpider)
    moments: dict[str, float] = {}
    for name, signal in (("opened", signals.spider_opened), ("closed", signals.spider_closed)):
        # Not weak: nothing else holds on to these functions.
        crawler.signals.connect(lambda key=name: moments.__setitem__(key, time.monotonic()), signal=signal, weak=False)
    urls = given.urls.read_text().split()
    process.crawl(crawler, urls=urls, proxy=given.proxy, download_only=given.download_only, follow=given.follow)
    process.start()
    print(json.dumps({"seconds": moments["closed"] - moments["opened"]}))


if __name__ == "__main__":
    main()
