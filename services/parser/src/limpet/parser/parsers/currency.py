"""Which currency is meant: by its code, its sign, or where the page is at home."""

from __future__ import annotations

import re
from typing import Final

_ALL: Final = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG
    HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD
    MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES
    VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL"""
_CODES: Final = frozenset(_ALL.split())
_SIGNS: Final = {
    "\u20ac": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR", "\u00a3": "GBP", "us$": "USD", "u$s": "USD", "usd$": "USD", "u.s. $": "USD",
    "c$": "CAD", "ca$": "CAD", "cad$": "CAD", "can$": "CAD", "cdn$": "CAD", "a$": "AUD", "au$": "AUD", "aud$": "AUD", "nz$": "NZD", "hk$": "HKD",
    "s$": "SGD", "sg$": "SGD", "nt$": "TWD", "mx$": "MXN", "r$": "BRL", "ar$": "ARS", "\u20b9": "INR", "rs": "INR", "rs.": "INR", "\u20a8": "INR",
    "\u20bd": "RUB", "\u0440\u0443\u0431": "RUB", "\u0440\u0443\u0431.": "RUB", "\u0440.": "RUB", "\u0440": "RUB", "\u20b4": "UAH", "\u0433\u0440\u043d": "UAH", "\u0433\u0440\u043d.": "UAH",
    "z\u0142": "PLN", "zl": "PLN", "k\u010d": "CZK", "kc": "CZK", "ft": "HUF", "lei": "RON", "\u043b\u0432": "BGN", "\u043b\u0432.": "BGN", "\u20ba": "TRY", "tl": "TRY",
    "\u20aa": "ILS", "\u20a9": "KRW", "\uc6d0": "KRW", "\u5186": "JPY", "\uffe5": "JPY", "jp\u00a5": "JPY", "\u5143": "CNY", "rmb": "CNY", "cn\u00a5": "CNY", "\u20ab": "VND", "\u0111": "VND",
    "vn\u0111": "VND", "\u0e3f": "THB", "rp": "IDR", "rp.": "IDR", "rm": "MYR", "\u20b1": "PHP", "\u20a6": "NGN", "\u20b8": "KZT", "\u20ae": "MNT", "\u20be": "GEL", "kd": "KWD",
    "dhs": "AED", "dhs.": "AED", "dh": "AED", "aed": "AED", "\u062f.\u0625": "AED", "sar": "SAR", "sr": "SAR", "\u0631.\u0633": "SAR", "fr.": "CHF", "sfr": "CHF", "sfr.": "CHF",
    "s/": "PEN", "s/.": "PEN", "ksh": "KES", "kshs": "KES", "\u09f3": "BDT", "tk": "BDT", "bs": "BOB", "\u20a1": "CRC", "\u20b2": "PYG", "gs": "PYG", "din": "RSD", "din.": "RSD",
    "fcfa": "XOF", "cfa": "XOF",
}  # fmt: skip
# Signs that several countries use: by country, then whose sign it is when the page does not say where it is.
_SHARED: Final = {
    "$": ({"CA": "CAD", "AU": "AUD", "NZ": "NZD", "HK": "HKD", "SG": "SGD", "TW": "TWD", "MX": "MXN", "AR": "ARS", "CL": "CLP", "CO": "COP", "UY": "UYU"}, "USD"),
    "kr": ({"SE": "SEK", "NO": "NOK", "DK": "DKK", "IS": "ISK", "FO": "DKK"}, None),
    "\u00a5": ({"CN": "CNY", "JP": "JPY"}, "JPY"),
    "r": ({"ZA": "ZAR"}, "ZAR"),
}  # fmt: skip
_SHARED_AS: Final = {"kr.": "kr", "\uff04": "$", "sek": "kr"}
# Where a language is at home when it names no country; only those where that decides a sign.
_HOMES: Final = {"sv": "SE", "nb": "NO", "nn": "NO", "no": "NO", "da": "DK", "is": "IS", "ja": "JP", "zh": "CN"}
_DOMAINS: Final = re.compile(r"https?://[^/:?#]{1,255}?\.(?:com?\.)?([a-z]{2})(?:[/:?#]|$)", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z]{4})?(?:[-_]([A-Za-z]{2}))?(?:\W|$)", re.IGNORECASE)


def currency(text: str | None, *, country: str = "") -> str | None:
    """The three letters for a code or a sign; nothing for what is neither."""
    if not text or len(text) > 12:
        return None
    if text in _CODES:
        return text
    code = text.strip().upper()
    if code in _CODES:
        return code
    sign = code.lower()
    if found := _SIGNS.get(sign):
        return found
    by_country, otherwise = _SHARED.get(_SHARED_AS.get(sign, sign), ({}, None))
    return by_country.get(country, otherwise)


def country(*, language: str, url: str) -> str:
    """Two letters, or nothing: what the page's language says, else the end of its host's name."""
    said = _LANGUAGE.match(language[:35])
    if said and said[2]:
        return said[2].upper()
    domain = _DOMAINS.match(url[:300])
    if domain and domain[1].lower() not in ("eu", "io", "co", "me", "tv", "ai"):
        return domain[1].upper().replace("UK", "GB")
    return _HOMES.get(said[1].lower(), "") if said else ""
