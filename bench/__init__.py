"""Limpet against Scrapy on one generated site, in one run."""
