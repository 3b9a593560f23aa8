"""S18: webhooks reach a real server signed, at least once, and never a private address."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from limpet.kit.bus import Bus
from limpet.kit.guard import Guard, networks_of
from limpet.kit.keys import Keys
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import serve_rest
from limpet.scheduler.api.app import make_api
from limpet.scheduler.courier import Courier, open_courier
from limpet.scheduler.redelivery import MAX_TRIES
from limpet.scheduler.signature import Signer, endpoint_of, verify
from limpet.scheduler.store.webhooks import (
    Finished,
    add_deliveries,
    claim_deliveries,
    finish_deliveries,
    prune_deliveries,
)
from limpet.scheduler.webhook_event import make_delivery
from limpet.scheduler.webhooks import PER_ENDPOINT, Webhooks
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.receiver import Received, Receiver, receiver
from tests.support.servers import free_port
from tests.support.waiting import until

SIGNER = Signer(b"m" * 32)
LOOPBACK = Guard(networks=networks_of("127.0.0.0/8"))


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture
async def courier() -> AsyncIterator[Courier]:
    """Loopback is allowed here, as it is for a receiver of the operator's own."""
    async with open_courier(LOOPBACK) as courier:
        yield courier


@pytest.fixture
async def strict() -> AsyncIterator[Courier]:
    async with open_courier(Guard()) as courier:
        yield courier


async def tell(pool: Pool, url: str, count: int = 1) -> list[UUID]:
    rng = Random()
    made = [
        make_delivery(url, "task.completed", {"task_id": number}, occurred_at=datetime.now(UTC), rng=rng)
        for number in range(count)
    ]
    async with pool.acquire() as conn, conn.transaction():
        await add_deliveries(conn, made)
    return [delivery.delivery_id for delivery in made]


async def row_of(pool: Pool, delivery_id: UUID) -> Record:
    row = await pool.fetchrow("SELECT * FROM webhook_deliveries WHERE delivery_id = $1", delivery_id)
    assert row is not None
    return row


async def pass_time(pool: Pool) -> None:
    """Whatever waits is due: its backoff or its lease has passed."""
    await pool.execute(
        "UPDATE webhook_deliveries SET next_try_at = now(), leased_until = now() WHERE state = 'pending'"
    )


def is_ours(received: Received, url: str) -> bool:
    secret = SIGNER.secret_of(endpoint_of(url))
    return verify(secret, received.headers, received.body, now=time.time())


async def test_s18_a_webhook_is_delivered_once_with_a_valid_signature(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    url = hooks.url("/hook?key=a%2Fb")
    (delivery_id,) = await tell(pool, url)
    webhooks = Webhooks(pool, courier, SIGNER)
    assert await webhooks.round() == 1
    assert await webhooks.round() == 0
    await pass_time(pool)
    assert await webhooks.round() == 0
    (received,) = hooks.got
    assert is_ours(received, url)
    assert received.path == "/hook?key=a%2Fb"
    assert received.headers["Content-Type"] == "application/json"
    said = json.loads(received.body)
    assert (said["id"], said["event"], said["task"]) == (str(delivery_id), "task.completed", {"task_id": 0})
    assert received.delivery_id == str(delivery_id)
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["tries"], row["last_status"], row["last_error"]) == ("delivered", 1, 200, None)
    assert row["delivered_at"] is not None


async def test_s18_the_loop_delivers_what_is_added_while_it_runs(pool: Pool, courier: Courier, hooks: Receiver) -> None:
    async with running(Webhooks(pool, courier, SIGNER, every=0.01).run()):
        await tell(pool, hooks.url(), 3)

        async def all_delivered() -> bool:
            return bool(await pool.fetchval("SELECT count(*) = 3 FROM webhook_deliveries WHERE state = 'delivered'"))

        await until(all_delivered)
    assert len(hooks.got) == 3


async def test_s18_a_webhook_and_its_event_are_kept_or_lost_together(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    delivery = make_delivery(hooks.url(), "run.completed", {}, occurred_at=datetime.now(UTC), rng=Random())
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await add_deliveries(conn, [delivery])
        await transaction.rollback()
    assert await Webhooks(pool, courier, SIGNER).round() == 0
    assert hooks.got == []


async def test_s18_a_failure_is_tried_again_later_with_the_same_id_and_body(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    hooks.answers = [500]
    (delivery_id,) = await tell(pool, hooks.url())
    webhooks = Webhooks(pool, courier, SIGNER)
    assert await webhooks.round() == 1
    row = await row_of(pool, delivery_id)
    wait = row["next_try_at"] - await pool.fetchval("SELECT now()")
    assert (row["state"], row["last_status"], row["last_error"]) == ("pending", 500, "answered 500")
    assert timedelta(seconds=5) < wait < timedelta(seconds=13)
    assert await webhooks.round() == 0, "not before its time"
    await pass_time(pool)
    assert await webhooks.round() == 1
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["tries"], row["last_status"], row["last_error"]) == ("delivered", 2, 200, None)
    first, second = hooks.got
    assert (first.delivery_id, first.body) == (second.delivery_id, second.body)
    assert is_ours(second, hooks.url())


async def test_s18_after_the_last_try_it_is_dead_and_says_why(pool: Pool, courier: Courier) -> None:
    """Nobody listens on the port."""
    (delivery_id,) = await tell(pool, f"http://127.0.0.1:{free_port()}/")
    webhooks = Webhooks(pool, courier, SIGNER)
    for _ in range(MAX_TRIES):
        assert await webhooks.round() == 1
        await pass_time(pool)
    assert await webhooks.round() == 0
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["tries"], row["last_status"]) == ("dead", MAX_TRIES, None)
    assert "Connect" in row["last_error"]


async def test_s18_a_receiver_that_is_gone_is_not_asked_again(pool: Pool, courier: Courier, hooks: Receiver) -> None:
    hooks.answers = [410]
    (delivery_id,) = await tell(pool, hooks.url())
    assert await Webhooks(pool, courier, SIGNER).round() == 1
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["last_status"]) == ("dead", 410)


async def test_s18_loops_at_once_never_send_the_same_delivery(pool: Pool, courier: Courier, hooks: Receiver) -> None:
    """Nobody is answered before two loops have sent all they may, so that they hold their claims at the same time."""
    hooks.open.clear()
    count = 3 * PER_ENDPOINT
    sent = await tell(pool, hooks.url(), count)
    loops = [Webhooks(pool, courier, SIGNER) for _ in range(4)]

    async def drained(webhooks: Webhooks) -> int:
        done = 0
        while await pool.fetchval("SELECT count(*) FROM webhook_deliveries WHERE tries = 0"):
            done += await webhooks.round()
        return done

    async def two_hold_theirs() -> bool:
        return len(hooks.got) >= 2 * PER_ENDPOINT

    rounds = asyncio.gather(*map(drained, loops))
    try:
        await until(two_hold_theirs)
        hooks.open.set()
        async with asyncio.timeout(20):
            assert sum(await rounds) == count
    finally:
        rounds.cancel()
    assert Counter(received.delivery_id for received in hooks.got) == Counter(map(str, sent))
    assert hooks.most_at_once == 1
    assert await pool.fetchval("SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'") == count


async def test_s18_a_claim_that_meets_one_just_committed_does_not_take_it_too(pool: Pool) -> None:
    """Many small claims, so that some look at a row before another's commit and lock it after."""
    count = 400
    await tell(pool, "http://hooks.test/", count)

    async def claimer() -> int:
        taken = 0
        async with pool.acquire() as conn:
            while await conn.fetchval("SELECT count(*) FROM webhook_deliveries WHERE tries = 0"):
                claims = await claim_deliveries(conn, limit=1, per_endpoint=8, lease=timedelta(seconds=60))
                taken += len(claims)
        return taken

    async with asyncio.timeout(30):
        assert sum(await asyncio.gather(*(claimer() for _ in range(8)))) == count
    assert await pool.fetchval("SELECT max(tries) FROM webhook_deliveries") == 1


async def test_s18_what_a_dying_process_had_claimed_is_sent_when_its_lease_has_passed(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    hooks.open.clear()
    (delivery_id,) = await tell(pool, hooks.url())
    async with running(Webhooks(pool, courier, SIGNER).run()):
        await until(hooks.heard)
    hooks.open.set()
    other = Webhooks(pool, courier, SIGNER)
    assert await other.round() == 0, "the lease holds, whoever had it"
    lease = await pool.fetchval("SELECT next_try_at - now() FROM webhook_deliveries")
    assert timedelta(seconds=30) < lease <= timedelta(seconds=60)
    await pass_time(pool)
    assert await other.round() == 1
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["tries"]) == ("delivered", 2)
    assert {received.delivery_id for received in hooks.got} == {str(delivery_id)}
    assert is_ours(hooks.got[-1], hooks.url())


async def test_a_try_whose_lease_has_passed_counts_only_when_it_was_good(pool: Pool) -> None:
    (delivery_id,) = await tell(pool, "http://hooks.test/")
    await pool.execute("UPDATE webhook_deliveries SET tries = 2")
    async with pool.acquire() as conn:
        await finish_deliveries(conn, [Finished(delivery_id, 1, "dead", 0.0, 410, "late")])
        assert (await row_of(pool, delivery_id))["state"] == "pending"
        await finish_deliveries(conn, [Finished(delivery_id, 1, "delivered", 0.0, 200, None)])
        assert (await row_of(pool, delivery_id))["state"] == "delivered"
        await finish_deliveries(conn, [Finished(delivery_id, 2, "pending", 10.0, 500, "second")])
        assert (await row_of(pool, delivery_id))["state"] == "delivered"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_s18_a_private_address_is_never_connected_to_however_it_is_spelt(
    pool: Pool, strict: Courier, hooks: Receiver, host: str
) -> None:
    (delivery_id,) = await tell(pool, hooks.url(host=host))
    assert await Webhooks(pool, strict, SIGNER).round() == 1
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["tries"], row["last_status"]) == ("dead", 1, None)
    assert "not a public address" in row["last_error"]
    assert hooks.got == []


async def test_s18_a_name_of_a_private_address_works_when_it_is_allowed(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    """The counterpart of the refusals above: the same name reaches the same server."""
    async with open_courier(Guard(networks=networks_of("127.0.0.0/8,::1"))) as both:
        await tell(pool, hooks.url(host="localhost"))
        assert await Webhooks(pool, both, SIGNER).round() == 1
    assert len(hooks.got) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_s18_a_redirect_is_not_followed(pool: Pool, courier: Courier, hooks: Receiver, status: int) -> None:
    hooks.answers = [status]
    (delivery_id,) = await tell(pool, hooks.url("/first"))
    assert await Webhooks(pool, courier, SIGNER).round() == 1
    assert [received.path for received in hooks.got] == ["/first"]
    row = await row_of(pool, delivery_id)
    assert (row["state"], row["last_status"], row["last_error"]) == ("pending", status, "redirects are not followed")


async def test_s18_an_endpoint_that_never_answers_holds_the_others_up_only_once(
    pool: Pool, courier: Courier, hooks: Receiver
) -> None:
    async with receiver() as silent, open_courier(LOOPBACK, seconds=0.3) as hasty:
        silent.open.clear()
        await tell(pool, silent.url(), 5 * PER_ENDPOINT)
        await tell(pool, hooks.url(), 2 * PER_ENDPOINT)
        webhooks = Webhooks(pool, hasty, SIGNER)
        assert await webhooks.round() == 2 * PER_ENDPOINT, "a share for each"
        assert await webhooks.round() == PER_ENDPOINT
        assert await webhooks.round() == 0
        assert (len(silent.got), len(hooks.got)) == (PER_ENDPOINT, 2 * PER_ENDPOINT)
        error = await pool.fetchval("SELECT DISTINCT last_error FROM webhook_deliveries WHERE last_error IS NOT NULL")
        assert error == "no answer within 0.3 s"


async def test_s18_without_a_secret_nothing_is_sent(pool: Pool, courier: Courier, hooks: Receiver) -> None:
    await tell(pool, hooks.url())
    mute, loud = Webhooks(pool, courier, Signer(b""), every=0.01), Webhooks(pool, courier, SIGNER)
    async with running(mute.run()) as part:
        # It is asleep once everybody else had a turn.
        for _ in range(100):
            assert await pool.fetchval("SELECT count(*) FROM webhook_deliveries WHERE tries = 0") == 1
        assert not part.done()
    assert await loud.round() == 1


async def test_old_deliveries_that_are_over_can_be_pruned(pool: Pool) -> None:
    ids = await tell(pool, "http://hooks.test/", 4)
    for delivery_id, state in zip(ids, ("pending", "delivered", "dead", "delivered"), strict=True):
        await pool.execute("UPDATE webhook_deliveries SET state = $2 WHERE delivery_id = $1", delivery_id, state)
    await pool.execute(
        "UPDATE webhook_deliveries SET created_at = now() - interval '8 days' WHERE delivery_id <> $1", ids[3]
    )
    async with pool.acquire() as conn:
        assert await prune_deliveries(conn, older_than=timedelta(days=7), limit=1) == 1
        assert await prune_deliveries(conn, older_than=timedelta(days=7), limit=10) == 1
    left = await pool.fetch("SELECT delivery_id FROM webhook_deliveries")
    assert {row["delivery_id"] for row in left} == {ids[0], ids[3]}


@pytest.fixture
async def api(pool: Pool, bus: Bus) -> AsyncIterator[httpx.AsyncClient]:
    keys = Keys(tuple((role, hashlib.sha256(role.encode()).hexdigest()) for role in ("read", "operate", "admin")))
    port = free_port()
    app = make_api(pool, bus, keys, submitted=lambda: None, changed=lambda: None, signer=SIGNER)
    async with running(serve_rest(app, host="127.0.0.1", port=port)):
        await listening(port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/admin/webhooks") as client:
            yield client


def key(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}"}


async def test_s18_only_an_admin_learns_the_secret_of_an_endpoint(api: httpx.AsyncClient) -> None:
    wanted = {"url": "https://hooks.test/any/path"}
    for role, status in (("read", 403), ("operate", 403), ("admin", 200)):
        answer = await api.get("/secret", params=wanted, headers=key(role))
        assert answer.status_code == status
    secret = SIGNER.secret_of("https://hooks.test:443")
    assert answer.json() == {"endpoint": "https://hooks.test:443", "secret": secret}
    assert answer.headers["cache-control"] == "no-store"
    bad = await api.get("/secret", params={"url": "ftp://hooks.test/"}, headers=key("admin"))
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (422, "url")


async def test_deliveries_are_listed_in_pages_by_state(pool: Pool, api: httpx.AsyncClient) -> None:
    ids = [str(delivery_id) for delivery_id in await tell(pool, "http://hooks.test/", 5)]
    await pool.execute("UPDATE webhook_deliveries SET state = 'dead' WHERE delivery_id = $1", ids[3])
    seen: list[str] = []
    after: dict[str, Any] = {}
    while True:
        page = (await api.get("/deliveries", params={"limit": 2, **after}, headers=key("read"))).json()
        seen += [item["delivery_id"] for item in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == sorted(ids)
    (dead,) = (await api.get("/deliveries", params={"state": "dead"}, headers=key("read"))).json()["items"]
    assert (dead["delivery_id"], dead["state"], dead["event"]) == (ids[3], "dead", "task.completed")
    assert (await api.get("/deliveries", params={"state": "lost"}, headers=key("read"))).status_code == 422
    assert (await api.get("/deliveries")).status_code == 401


async def test_a_dead_delivery_can_be_tried_again_and_one_in_hand_or_delivered_cannot(
    pool: Pool, courier: Courier, hooks: Receiver, api: httpx.AsyncClient
) -> None:
    hooks.answers = [410]
    (delivery_id,) = await tell(pool, hooks.url())
    webhooks = Webhooks(pool, courier, SIGNER)
    await webhooks.round()
    path = f"/deliveries/{delivery_id}/retry"
    assert (await api.post(path, headers=key("read"))).status_code == 403
    answer = await api.post(path, headers=key("operate"))
    assert (answer.status_code, answer.json()["state"], answer.json()["tries"]) == (200, "pending", 0)
    hooks.open.clear()
    async with running(webhooks.run()):

        async def heard_again() -> bool:
            return len(hooks.got) == 2

        await until(heard_again)
        busy = await api.post(path, headers=key("operate"))
        assert (busy.status_code, busy.json()["errors"][0]["message"]) == (409, "is being sent just now")
        hooks.open.set()

        async def delivered() -> bool:
            return bool((await row_of(pool, delivery_id))["state"] == "delivered")

        await until(delivered)
    over = await api.post(path, headers=key("operate"))
    assert (over.status_code, over.json()["errors"][0]["message"]) == (409, "was delivered already")
    assert (await api.post(f"/deliveries/{uuid4()}/retry", headers=key("operate"))).status_code == 404
