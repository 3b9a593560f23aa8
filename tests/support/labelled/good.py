"""Good pages, many of which hold words and marks of the walls."""

from __future__ import annotations

from tests.support.labelled.page import Labelled, document, menu, prose

_SENSORS = (
    "<script>(function(){window.__CF$cv$params={r:'8a',t:'MTcw'};var a=document.createElement('script');"
    "a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js';document.head.appendChild(a);})();</script>",
    '<script src="https://js.datadome.co/tags.js"></script>',
    '<script>window._pxAppId="PX1";</script><script src="//client.px-cloud.net/PX1/main.min.js"></script>',
    '<script type="text/javascript" src="/akam/13/5f2a1b"></script>',
    '<script src="https://www.google.com/recaptcha/api.js?render=key"></script>',
    '<script src="https://challenges.cloudflare.com/turnstile/v0/api.js" async></script>',
    "<script>var errors={403:'Access denied',429:'Too many requests',captcha:'Please verify you are human'};</script>",
    "<!-- Access Denied template is in /errors/403.html; captcha is switched off -->",
)
_NOSCRIPT = "<noscript>Please enable JavaScript to use all features of this site.</noscript>"
_COMMENT_FORM = (
    "<form action=/comment><input name=name><input name=email type=email><textarea name=text></textarea>"
    '<div class="g-recaptcha" data-sitekey="x"></div><p>Please confirm that you are human.</p><button>Send</button></form>'
)
_JSONLD = '<script type="application/ld+json">{"@type":"Product","name":"Boots","offers":{"price":"99.00"}}</script>'
_ABOUT_CAPTCHAS = (
    "How CAPTCHAs came to ask whether you are human",
    "Why sites say Access Denied, and what 403 Forbidden means",
    "Checking your browser: what Cloudflare's DDoS protection does",
    "Too Many Requests: a guide to rate limits",
    "hCaptcha, reCAPTCHA and Turnstile compared",
    "I'm not a robot: a short history of the checkbox",
    "Please enable JavaScript: the web without scripts",
    "Are you a robot? The Turing test at seventy",
)


def product(number: int, extra: str = "") -> bytes:
    inner = f"{menu(number)}<main><h1>Boots number {number}</h1>{prose(number, words=420)}</main>{extra}"
    return document(f"Boots number {number}", inner, head=_JSONLD)


PRODUCTS = tuple(
    Labelled(f"product_{number}", "good", product(number, extra))
    for number, extra in enumerate((*_SENSORS, _NOSCRIPT, _COMMENT_FORM, _COMMENT_FORM + _NOSCRIPT, "".join(_SENSORS)))
)
ARTICLES = tuple(
    Labelled(
        f"article_{number}",
        "good",
        document(
            title,
            f"{menu(number)}<article><h1>{title}</h1><p>{title}. {title}, they say.</p>{prose(number, words=700)}</article>",
        ),
    )
    for number, title in enumerate(_ABOUT_CAPTCHAS)
)
SHORT = tuple(
    Labelled(f"short_{number}", "good", document(title, inner))
    for number, (title, inner) in enumerate(
        (
            ("Opening hours", "<h1>Opening hours</h1><p>Monday to Friday, nine to five.</p>"),
            ("Boots", "<h1>Boots</h1><p>99.00 EUR. In stock.</p>"),
            ("Stub", "<h1>Otterford</h1><p>Otterford is a village in the hills. This article is a stub.</p>"),
            (
                "Contact",
                "<h1>Contact</h1><form><input name=name><input type=email name=email><textarea name=t></textarea><div class=g-recaptcha></div></form>",
            ),
            (
                "Contact us",
                "<h1>Write to us</h1><p>Please complete the captcha before you send.</p><form><input name=a><input name=b><textarea></textarea><div class=h-captcha></div></form>",
            ),
            (
                "Newsletter",
                "<h1>Newsletter</h1><p>One letter a month.</p><form><input type=email><div class=cf-turnstile></div></form>",
            ),
            ("Moved", "<p>We have moved to a new street.</p>"),
            ("Sold out", "<h1>Sold out</h1><p>These boots are sold out.</p><script>track()</script>"),
            ("Photo", "<img src=/boots.jpg alt=Boots><script>track()</script>"),
            ("Film", "<video src=/boots.mp4></video><script>player()</script>"),
            ("Frames", "<iframe src=/inner.html></iframe><script>x()</script>"),
            ("Quote", "<blockquote>He who would travel happily must travel light.</blockquote>"),
            ("Glossary: captcha", "<h1>captcha</h1><p>A test that tells people and machines apart.</p>"),
            (
                "Glossary: 403",
                "<h1>Status 403</h1><p>The server understood and refuses. Often shown as access denied.</p>",
            ),
            ("Empty shelf", "<h1>Nothing found</h1><p>No results for your search.</p>"),
            (
                "Weather",
                "<h1>Rain</h1><p>Twelve degrees.</p><noscript>Please enable JavaScript for the radar.</noscript><script>radar()</script>"
                + "<p>Wind from the west. The sea is calm, visibility is good, and the evening brings some sun over the hills and the coast.</p>",
            ),
            ("Song", "<h1>Access Denied</h1><p>Song by the band Porcupine Tree.</p>" + prose(3, words=400)),
            (
                "Tide table",
                "<table>" + "".join(f"<tr><td>{n}:00</td><td>{n / 3:.1f} m</td></tr>" for n in range(24)) + "</table>",
            ),
            ("Redirect page", '<p>This page is now <a href="/new">here</a>.</p>'),
            ("Poll", "<h1>Are boots better than shoes?</h1><ul><li>Yes</li><li>No</li></ul><script>poll()</script>"),
        )
    )
)
LOGINS = tuple(
    Labelled(f"login_{number}", "good", document(title, inner))
    for number, (title, inner) in enumerate(
        (
            ("Log in", "<form><input name=user><input type=password name=p><button>Log in</button></form>"),
            (
                "Sign in",
                "<h1>Sign in</h1><form><input name=user><input type=password><div class=g-recaptcha></div></form>",
            ),
            (
                "Sign in to continue",
                "<h1>Sign in</h1><p>You do not have permission to access this page. Please sign in.</p><form><input name=u><input type=password></form>",
            ),
            (
                "Members",
                "<form><input type=email><input type='password'><div class=h-captcha></div><p>Prove you are human</p></form>",
            ),
            (
                "Log in",
                "<noscript>Please enable JavaScript</noscript><form><input name=u><input type=password></form><script>l()</script>",
            ),
            (
                "Register",
                "<form><input name=a><input name=b><input type=password><div class=cf-turnstile></div><p>Confirm you are human</p></form>",
            ),
            ("Two factors", "<form><input name=code><input type=password name=again></form><script>f()</script>"),
            (
                "Admin",
                "<h1>Administration</h1><form><input name=u><input type=password></form><p>Unauthorised use is forbidden.</p>",
            ),
        )
    )
)
LISTS = tuple(
    Labelled(
        f"list_{number}",
        "good",
        document(
            "Boots",
            menu(number)
            + "<ul>"
            + "".join(f'<li><a href="/p/{n}">Boots {n}</a> {n}.00 EUR</li>' for n in range(size))
            + "</ul>"
            + extra,
        ),
    )
    for number, (size, extra) in enumerate(
        (
            (5, ""),
            (40, _SENSORS[0]),
            (200, _NOSCRIPT),
            (400, _SENSORS[6]),
            (60, _SENSORS[4]),
            (30, _NOSCRIPT + "<script>x()</script>"),
        )
    )
)
OTHER_TYPES = (
    Labelled(
        "json", "good", b'{"error": "Access denied is just a title", "items": []}', content_type="application/json"
    ),
    Labelled("json_captcha", "good", b'{"captcha": true, "sitekey": "g-recaptcha"}', content_type="application/json"),
    Labelled(
        "sitemap",
        "good",
        b'<?xml version="1.0"?><urlset><url><loc>https://shop.test/access-denied</loc></url></urlset>',
        content_type="application/xml",
    ),
    Labelled("sitemap_text", "good", b"<urlset></urlset>", content_type="text/xml"),
    Labelled("robots", "good", b"User-agent: *\nDisallow: /captcha", content_type="text/plain"),
    Labelled(
        "feed",
        "good",
        b"<rss><channel><title>Just a moment...</title></channel></rss>",
        content_type="application/rss+xml",
    ),
    Labelled("csv", "good", b"status,text\n403,Forbidden\n", content_type="text/csv"),
    Labelled("image", "good", b"\x89PNG\r\n\x1a\n access denied", content_type="image/png"),
    Labelled("script", "good", b"var e='access denied';grecaptcha.ready()", content_type="application/javascript"),
    Labelled("no_type", "good", document("Boots", prose(1, words=60)), content_type=""),
    Labelled("xhtml", "good", document("Boots", prose(2, words=60)), content_type="application/xhtml+xml"),
    Labelled("latin", "good", document("Schuhe", "<p>Gr\xf6\xdfe 42</p>").decode().encode("latin-1")),
)
FORUM = tuple(
    Labelled(f"forum_{number}", "good", document(title, f"<h1>{title}</h1>{prose(number, words=350)}<p>{said}</p>"))
    for number, (title, said) in enumerate(
        (
            ("Forum: I get access denied", "It says Access Denied. Reference #18.2f3a1502. What is it?"),
            (
                "Forum: checking your browser loop",
                "It says Checking your browser, for ever. DDoS protection by Cloudflare.",
            ),
            ("Forum: 403 Forbidden after an update", "nginx shows 403 Forbidden since yesterday."),
            ("Forum: cf_chl_opt in my logs", "What is window._cf_chl_opt? I see it in a page."),
            (
                "Forum: px-captcha",
                "There is a div with id px-captcha, it says press &amp; hold to confirm you are human.",
            ),
            ("Forum: incapsula", "Request unsuccessful. Incapsula incident ID: 1-2"),
            ("Forum: too many requests", "I get 429 Too Many Requests after ten pages."),
            ("Help: enable JavaScript", "Turn on JavaScript in the settings. JavaScript is required for the map."),
        )
    )
)
GOOD: tuple[Labelled, ...] = (*PRODUCTS, *ARTICLES, *SHORT, *LOGINS, *LISTS, *OTHER_TYPES, *FORUM)
