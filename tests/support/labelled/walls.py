"""Challenges, refusals and pages that only a browser can show."""

from __future__ import annotations

from tests.support.labelled.page import Label, Labelled, document


def wall(
    name: str, title: str, inner: str, *, vendor: str = "", status: int = 200, head: str = "", label: Label = "blocked"
) -> Labelled:
    return Labelled(name, label, document(title, inner, head=head), status=status, vendor=vendor)


_RAY = '<div class="ray-id">Ray ID: <code>8a1b2c3d4e5f6789</code></div>'
_CF_OPT = "<script>(function(){window._cf_chl_opt={cvId:'3',cZone:'shop.test',cType:'managed'};})();</script>"
_CF_LOAD = '<script src="/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=8a1b"></script>'
_OBFUSCATED = (
    "<script>"
    + "var a0=['\\x61\\x62','\\x63'];(function(b,c){while(--c){b.push(b.shift())}})(a0,0x1f3);" * 400
    + "</script>"
)

CLOUDFLARE = (
    wall(
        "cf_managed",
        "Just a moment...",
        f"<noscript><p>Enable JavaScript and cookies to continue</p></noscript>{_CF_OPT}{_CF_LOAD}",
        vendor="cloudflare",
    ),
    wall(
        "cf_managed_503",
        "Just a moment...",
        f"<div id=challenge-error-text></div>{_CF_OPT}",
        vendor="cloudflare",
        status=503,
    ),
    wall("cf_managed_403", "Just a moment...", _CF_OPT, vendor="cloudflare", status=403),
    wall("cf_managed_large", "Just a moment...", _CF_OPT + _OBFUSCATED, vendor="cloudflare"),
    wall(
        "cf_title_only",
        "Just a moment...",
        "<h2>Verifying you are human. This may take a few seconds.</h2><script src=/x.js></script>",
    ),
    wall(
        "cf_iuam_old",
        "Please Wait... | Cloudflare",
        '<form id="challenge-form"><input type="hidden" name="jschl_vc" value="1"><input type="hidden" id="jschl-answer"></form><p>Checking your browser before accessing shop.test.</p><p>DDoS protection by Cloudflare</p>',
        vendor="cloudflare",
    ),
    wall(
        "cf_attention",
        "Attention Required! | Cloudflare",
        f"<h1>One more step</h1><p>Please complete the security check to access shop.test</p>{_RAY}",
        vendor="cloudflare",
    ),
    wall(
        "cf_1020",
        "Access denied | shop.test used Cloudflare to restrict access",
        f'<h1>Access denied</h1><div class="cf-error-details"><p>Error code: 1020</p><p>You do not have access to shop.test.</p></div>{_RAY}',
        vendor="cloudflare",
    ),
    wall(
        "cf_blocked",
        "Attention Required! | Cloudflare",
        f"<h1>Sorry, you have been blocked</h1><p>You are unable to access shop.test</p><p>This website is using a security service to protect itself from online attacks. The action you just performed triggered the security solution.</p>{_RAY}",
        vendor="cloudflare",
    ),
    wall(
        "cf_1015",
        "Access denied",
        "<h1>Error 1015</h1><h2>You are being rate limited</h2><p>Error code: 1015. The owner of this website has banned you temporarily from accessing this website.</p>",
        vendor="cloudflare",
    ),
    wall(
        "cf_site_connection",
        "shop.test",
        f"<h2>Checking if the site connection is secure</h2><p>shop.test needs to review the security of your connection before proceeding.</p>{_CF_OPT}",
        vendor="cloudflare",
    ),
)
AKAMAI = (
    wall(
        "akamai_denied",
        "Access Denied",
        '<h1>Access Denied</h1> You don\'t have permission to access "http&#58;&#47;&#47;shop&#46;test&#47;" on this server.<p>Reference&#32;&#35;18&#46;2f3a1502&#46;1700000000&#46;1a2b3c</p>',
        vendor="",
    ),
    wall(
        "akamai_denied_link",
        "Access Denied",
        "<h1>Access Denied</h1><p>Reference #18.2f3a1502</p><p>https://errors.edgesuite.net/18.2f3a1502</p>",
        vendor="akamai",
    ),
    wall("akamai_denied_403", "Access Denied", "<h1>Access Denied</h1><p>Reference #18.2f3a1502</p>", status=403),
    wall(
        "akamai_cpt",
        "Challenge Validation",
        '<div id="sec-if-cpt-container"><iframe id="sec-cpt-if" src="/_sec/cp_challenge/ak-challenge-4-3.htm"></iframe></div>',
        vendor="akamai",
    ),
    wall(
        "akamai_bm_verify",
        "",
        '<noscript>x</noscript><script>var i=1700000000;var j=i+Number("12"+"34");</script><meta http-equiv="refresh" content="5; URL=\'/?bm-verify=AAQAAAAJ\'">',
        vendor="akamai",
    ),
)
DATADOME = (
    wall(
        "datadome_403",
        "shop.test",
        "<p id=\"cmsg\">Please enable JS and disable any ad blocker</p><script data-cfasync=\"false\">var dd={'rt':'c','cid':'AHrl','hsh':'1','t':'fe','host':'geo.captcha-delivery.com'}</script><script src=https://ct.captcha-delivery.com/c.js></script>",
        vendor="datadome",
        status=403,
    ),
    wall(
        "datadome_200",
        "shop.test",
        "<style>#cmsg{animation: A 1.5s;}</style><p id=\"cmsg\">Please enable JS and disable any ad blocker</p><script>var dd={'rt':'i','host':'geo.captcha-delivery.com'}</script>",
        vendor="datadome",
    ),
    wall(
        "datadome_frame",
        "You have been blocked",
        '<iframe src="https://geo.captcha-delivery.com/captcha/?initialCid=1" title="DataDome CAPTCHA"></iframe>',
        vendor="datadome",
    ),
)
HUMAN = (
    wall(
        "px_denied",
        "Access to this page has been denied.",
        '<div id="px-captcha"></div><p>Access to this page has been denied because we believe you are using automation tools to browse the website.</p><p>Reference ID: #1a2b</p><script>window._pxAppId="PX1";</script>',
        vendor="human",
    ),
    wall(
        "px_hold",
        "Access to this page has been denied",
        '<h1>Before we continue...</h1><p>Press &amp; Hold to confirm you are a human (and not a bot).</p><script src="https://captcha.px-cdn.net/PX1/captcha.js"></script>',
        vendor="human",
    ),
    wall(
        "px_bare",
        "Robot or human?",
        "<h1>Activate and hold the button to confirm that you&rsquo;re human. Thank You!</h1><div class=px-captcha-container id=px-captcha></div>",
        vendor="human",
    ),
    wall(
        "px_var",
        "shop",
        "<script>window._pxJsClientSrc='/PX/init.js';window._pxBlockedUrl='/x';</script><p>Please verify you are a human</p>",
        vendor="human",
    ),
)
IMPERVA = (
    wall(
        "incapsula_frame",
        "",
        '<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=1" frameborder=0>Request unsuccessful. Incapsula incident ID: 123-456</iframe>',
        vendor="imperva",
    ),
    wall(
        "incapsula_script",
        "",
        '<META NAME="ROBOTS" CONTENT="NOINDEX, NOFOLLOW"><script src="/_Incapsula_Resource?SWJIYLWA=719d34"></script>',
        vendor="imperva",
    ),
    wall(
        "incapsula_large", "", '<script src="/_Incapsula_Resource?SWJIYLWA=1"></script>' + _OBFUSCATED, vendor="imperva"
    ),
    wall(
        "distil",
        "Pardon Our Interruption",
        '<h1>Pardon Our Interruption</h1><p>As you were browsing something about your browser made us think you were a bot. There are a few reasons this might happen: You are a power user moving through this website with super-human speed. You have disabled JavaScript in your web browser.</p><div id="distilCaptchaForm"></div>',
        vendor="imperva",
    ),
    wall(
        "distil_ident",
        "",
        '<div id="distilIdentificationBlock"></div><script>distil_ident_block=1</script><form id="distil_r_captcha_form"></form>',
        vendor="imperva",
    ),
)
AMAZON = (
    wall(
        "amazon_captcha",
        "Amazon.com",
        '<form method="get" action="/errors/validateCaptcha"><h4>Enter the characters you see below</h4><p>Sorry, we just need to make sure you\'re not a robot. For best results, please make sure your browser is accepting cookies.</p><img src="/captcha/x.jpg"><input id="captchacharacters" name="field-keywords"></form>',
        vendor="amazon",
    ),
    wall(
        "amazon_503",
        "Sorry! Something went wrong!",
        "<p>To discuss automated access to Amazon data please contact api-services-support@amazon.com.</p><p>Enter the characters you see below</p>",
        vendor="amazon",
        status=503,
    ),
)
AWS = (
    wall(
        "aws_challenge",
        "",
        "<script>window.gokuProps={key:'AQ',iv:'C',context:'x'};</script><script src=\"https://1.token.awswaf.com/challenge.js\"></script><div id=challenge-container></div><script>AwsWafIntegration.checkForceRefresh().then(f=>f);</script><noscript><h1>JavaScript is disabled</h1>In order to continue, we need to verify that you're not a robot.</noscript>",
        vendor="aws_waf",
        status=202,
    ),
    wall(
        "aws_captcha",
        "Human Verification",
        '<script src="https://1.captcha-sdk.awswaf.com/1/jsapi.js"></script><script>window.gokuProps={}</script><div id=captcha-container></div>',
        vendor="aws_waf",
        status=405,
    ),
    wall(
        "aws_render",
        "Human Verification",
        "<div id=c></div><script>AwsWafCaptcha.renderCaptcha(c,{})</script><script>window.gokuProps = {};</script>",
        vendor="aws_waf",
    ),
)
OTHERS = (
    wall(
        "kasada",
        "",
        '<script>window.KPSDK={};KPSDK.now=Date.now;</script><script src="/149e9513-01fa/ips.js?KP_UIDz=1"></script>',
        vendor="kasada",
        status=429,
    ),
    wall(
        "kasada_200",
        "",
        '<script>window.KPSDK={};</script><script src="/149e9513-01fa/ips.js?x=1"></script>',
        vendor="kasada",
    ),
    wall(
        "f5_tspd",
        "",
        '<script>window["bobcmn"]="1011";</script><script src="/TSPD/08d6?type=9"></script><noscript>Please enable JavaScript to view the page content.<br/>Your support ID is: 123.</noscript>',
        vendor="f5",
    ),
    wall(
        "f5_rejected",
        "Request Rejected",
        "The requested URL was rejected. Please consult with your administrator.<br><br>Your support ID is: 1234567890<br><br><a href='javascript:history.back();'>[Go Back]</a>",
        vendor="f5",
    ),
    wall(
        "sucuri_js",
        "You are being redirected...",
        "<noscript>Javascript is required. Please enable javascript before you are allowed to see this page.</noscript><script>var s={},u,c;document.cookie='sucuri_cloudproxy_uuid_1=1';location.reload();</script>",
        vendor="sucuri",
    ),
    wall(
        "sucuri_denied",
        "Sucuri WebSite Firewall - Access Denied",
        "<h1>Access Denied - Sucuri Website Firewall</h1><p>Block reason: Access from your Country was disabled by the administrator.</p>",
        vendor="sucuri",
    ),
    wall(
        "ddos_guard",
        "DDoS-Guard",
        '<script src="https://check.ddos-guard.net/check.js"></script><p>Checking your browser before accessing shop.test</p><p>DDoS protection by DDoS-Guard</p>',
        vendor="ddos_guard",
    ),
    wall(
        "wordfence",
        "Your access to this site has been limited",
        "<h1>Your access to this site has been limited by the site owner</h1><p>Your access to this service has been limited. (HTTP response code 503)</p><p>Generated by Wordfence</p>",
        vendor="wordfence",
        status=503,
    ),
    wall(
        "wordfence_200",
        "Blocked",
        "<p>A potentially unsafe operation has been detected in your request to this site</p><p>Generated by Wordfence at Mon, 1 Jan.</p>",
        vendor="wordfence",
    ),
    wall(
        "google_sorry",
        "https://www.google.com/search?q=x",
        '<form id="captcha-form" action="index" method="post"><div class="g-recaptcha" data-sitekey="x"></div></form><p>Our systems have detected unusual traffic from your computer network. This page checks to see if it\'s really you sending the requests, and not a robot.</p>',
        vendor="recaptcha",
        status=429,
    ),
    wall(
        "google_sorry_200",
        "Sorry...",
        "<p>Our systems have detected unusual traffic from your computer network. Please try your request again later.</p><a href=https://www.google.com/sorry/index>why</a>",
        vendor="google",
    ),
    wall(
        "radware",
        "Radware Bot Manager Captcha",
        '<link rel="stylesheet" href="/shieldsquare_styles.css"><form action="https://validate.perfdrive.com/x"><div class="g-recaptcha"></div></form><p>We apologize for the inconvenience</p>',
        vendor="recaptcha",
    ),
    wall(
        "azure_waf",
        "Azure WAF",
        "<p>Please wait while we verify your browser</p><script src=/.azwaf/captcha.js></script><p>Azure Web Application Firewall</p>",
        vendor="azure",
    ),
    wall(
        "vercel",
        "Vercel Security Checkpoint",
        "<p>We're verifying your browser</p><p>Website owner? Click here to fix</p><script src='/.well-known/vercel/security/static/challenge.v2.js'></script>",
        vendor="vercel",
    ),
    wall(
        "yandex",
        "Oops!",
        "<form action=/checkcaptcha?key=1><p>Please confirm that you and not a robot are sending requests</p><div class=CheckboxCaptcha></div></form>",
        vendor="yandex",
    ),
    wall(
        "anubis",
        "Making sure you're not a bot!",
        '<script id="anubis_challenge" type="application/json">{}</script><p>Making sure you&#39;re not a bot!</p><p>Loading...</p>',
        vendor="anubis",
    ),
    wall(
        "alibaba",
        "",
        "<script>sessionStorage.x5referer=location.href;location.replace('https://shop.test/_____tmd_____/punish?x5secdata=1');</script>",
        vendor="alibaba",
    ),
    wall("reblaze", "", "<script>window.rbzns={bereshit:'1',seed:'2'};winsocks();</script>", vendor="reblaze"),
    wall("qrator", "shop.test", "<script src=/__qrator/qauth.js></script>", vendor="qrator"),
    wall(
        "stackpath",
        "",
        "<form id=sbbFrm></form><script>function sbbgs(){}sbbgs.submit();</script><img src='/sbbi/?sbbpg=1'>",
        vendor="stackpath",
    ),
    wall(
        "queue_it",
        "Queue-it",
        "<h1>You are now in line</h1><script src=//static.queue-it.net/script/queue.js></script><p>Your estimated wait time is 5 minutes.</p>",
        vendor="queue_it",
    ),
    wall(
        "geetest_wall",
        "Security verification",
        "<div id=captcha></div><script src=https://static.geetest.com/static/tools/gt.js></script><script>initGeetest({},h=>h)</script><p>Please complete the security verification</p>",
        vendor="geetest",
    ),
    wall(
        "arkose_wall",
        "Verification",
        "<p>Please verify you are human to continue</p><script src=https://client-api.arkoselabs.com/v2/x/api.js></script>",
        vendor="arkose",
    ),
    wall(
        "hcaptcha_wall",
        "Are you human?",
        '<form><div class="h-captcha" data-sitekey="x"></div></form><script src="https://js.hcaptcha.com/1/api.js"></script><p>Complete the captcha to go on.</p>',
        vendor="hcaptcha",
    ),
    wall(
        "recaptcha_wall",
        "Robot Check",
        '<p>Please verify you are not a robot</p><div class="g-recaptcha" data-sitekey="x"></div>',
        vendor="recaptcha",
    ),
    wall(
        "turnstile_wall",
        "Security check",
        '<p>Please confirm you are human</p><div class="cf-turnstile" data-sitekey="x"></div>',
        vendor="turnstile",
    ),
    wall(
        "mtcaptcha_wall",
        "Verification",
        "<div class=mtcaptcha></div><script src=https://service.mtcaptcha.com/mtcv1/client/mtcaptcha.min.js></script>",
        vendor="mtcaptcha",
    ),
    wall(
        "tencent_wall",
        "Security verification",
        "<script src=https://turing.captcha.qcloud.com/TCaptcha.js></script><p>Please complete the security verification</p>",
        vendor="tencent",
    ),
    wall(
        "friendly_wall",
        "Bot verification",
        '<div class="frc-captcha"></div><p>Please wait while we verify you.</p>',
        vendor="friendly_captcha",
    ),
)
DENIED = tuple(
    wall(f"denied_{number}", title, inner, status=status)
    for number, (status, title, inner) in enumerate(
        (
            (200, "403 Forbidden", "<center><h1>403 Forbidden</h1></center><hr><center>nginx</center>"),
            (200, "Access Denied", "<h1>Access Denied</h1><p>You do not have permission to access this page.</p>"),
            (200, "Error 403", "<h1>Error 403</h1><p>Your IP address has been blocked.</p>"),
            (
                200,
                "Blocked",
                "<h1>Your request has been blocked</h1><p>Access denied. If you think this is a mistake write to us.</p>",
            ),
            (
                200,
                "Request blocked",
                "<h1>Request blocked.</h1><p>We can't connect to the server for this app or website at this time. Request ID: x</p>",
            ),
            (200, "Too Many Requests", "<h1>Too Many Requests</h1><p>Please try again later.</p>"),
            (200, "429 Too Many Requests", "<center><h1>429 Too Many Requests</h1></center>"),
            (200, "Rate limit exceeded", "<p>You have exceeded the rate limit. Please wait.</p>"),
            (
                200,
                "Forbidden",
                "<h1>403 - Forbidden: Access is denied.</h1><p>You do not have permission to view this directory or page.</p>",
            ),
            (
                200,
                "Temporarily blocked",
                "<p>Your IP has been temporarily blocked because of suspicious activity from your network.</p><p>Access denied.</p>",
            ),
            (
                200,
                "Not available",
                "<h1>This site is not available in your country</h1><p>Access from your country is not permitted. Access denied.</p>",
            ),
            (
                200,
                "Unusual activity",
                "<h1>We noticed unusual activity from your network</h1><p>Please complete the captcha. Are you a robot?</p>",
            ),
            (200, "Security Check", "<p>Please complete the security check to go on. Verify you are human.</p>"),
            (
                200,
                "Bots",
                "<h1>Bots are not allowed</h1><p>Automated access to this site is forbidden. Access denied.</p>",
            ),
            (403, "Forbidden", "<p>no</p>"),
            (403, "", ""),
            (429, "", ""),
            (429, "Slow down", "<p>Too many requests</p>"),
            (403, "Access Denied", "<h1>Access Denied</h1>"),
            (403, "Shop", "<p>" + "Members only. " * 300 + "</p>"),
        )
    )
)
RENDER = tuple(
    wall(f"render_{number}", title, inner, label="needs_render")
    for number, (title, inner) in enumerate(
        (
            (
                "Shop",
                '<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div><script src="/static/js/main.js"></script>',
            ),
            ("App", '<div id="app"></div><script type="module" src="/assets/index.js"></script>'),
            (
                "Shop",
                "<noscript><strong>We're sorry but shop doesn't work properly without JavaScript enabled. Please enable it to continue.</strong></noscript><div id=app></div><script src=/js/app.js></script>",
            ),
            (
                "Loading",
                "<p>Please enable JavaScript to continue using this application.</p><script src=/a.js></script>",
            ),
            (
                "",
                "<app-root></app-root><script src=runtime.js></script><script src=main.js></script><noscript>Please enable JavaScript to continue using this application.</noscript>",
            ),
            (
                "Portal",
                "<h1>JavaScript is required</h1><p>This site requires JavaScript. Turn on JavaScript in your browser and load the page again.</p><script>boot()</script>",
            ),
            (
                "Big app",
                '<div id="__next"></div><script id="__DATA__" type="application/json">{"a":"'
                + "x" * 30000
                + '"}</script><script src=/n.js></script>',
            ),
            ("", "<script>document.location='/home'</script>"),
        )
    )
)
WALLS: tuple[Labelled, ...] = (
    *CLOUDFLARE,
    *AKAMAI,
    *DATADOME,
    *HUMAN,
    *IMPERVA,
    *AMAZON,
    *AWS,
    *OTHERS,
    *DENIED,
    *RENDER,
)
