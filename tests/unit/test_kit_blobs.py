"""Bytes put into a real folder and taken out again."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
import zstandard

from limpet.kit import blobs as blobs_module
from limpet.kit.blobs import BlobDamaged, BlobMissing, Blobs

BODIES = [b"", b"x", b"<html>" * 10_000, random.Random(1).randbytes(50_000), bytes(range(256))]


@pytest.fixture
def store(tmp_path: Path) -> Blobs:
    return Blobs.open(f"file://{tmp_path}/pages")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def plant(folder: Path, frame: bytes) -> str:
    """Put bytes where the store looks for them, past the store; the key that finds them."""
    digest = hashlib.sha256(frame).hexdigest()
    path = folder / "pages" / digest[:2] / f"{digest[2:]}.pack"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(frame)
    return f"{digest[:2]}/{digest[2:]}.pack#0+{len(frame)}"


@pytest.mark.parametrize("body", BODIES, ids=len)
async def test_what_was_put_comes_back(store: Blobs, body: bytes) -> None:
    assert await store.get(await store.put(body)) == body


async def test_the_same_bytes_have_the_same_key_and_are_kept_once(store: Blobs, tmp_path: Path) -> None:
    keys = {await store.put(b"same") for _ in range(3)}
    assert len(keys) == 1
    assert len(files(tmp_path)) == 1
    assert await store.put(b"other") not in keys


async def test_another_process_finds_what_this_one_put(store: Blobs, tmp_path: Path) -> None:
    key = await store.put(b"shared")
    assert await Blobs.open(f"file://{tmp_path}/pages").get(key) == b"shared"


async def test_many_bodies_share_few_objects_and_come_back_in_any_order(store: Blobs, tmp_path: Path) -> None:
    keys = await store.put_many(BODIES)
    assert len(files(tmp_path)) == 1
    assert await store.get_many(keys[::-1]) == BODIES[::-1]
    assert await store.put_many([]) == []
    assert await store.get_many([]) == []


@pytest.mark.parametrize("bodies", [[b""], [b"", b""], [b"", b"some", b"", b"x" * 100_000], []])
async def test_empty_bodies_are_bodies_too(store: Blobs, bodies: list[bytes]) -> None:
    assert await store.get_many(await store.put_many(bodies)) == bodies


async def test_a_pack_does_not_grow_past_its_size(
    store: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "PACK_BYTES", 10_000)
    rng = random.Random(2)
    bodies = [rng.randbytes(4_000) for _ in range(10)]
    keys = await store.put_many(bodies)
    assert [path.stat().st_size <= 10_000 for path in files(tmp_path)] == [True] * 5
    assert await store.get_many(keys) == bodies


async def test_a_missing_key_raises_and_among_many_costs_only_itself(store: Blobs) -> None:
    good = await store.put(b"here")
    gone = f"00/{'0' * 62}.pack#0+10"
    with pytest.raises(BlobMissing):
        await store.get(gone)
    found = await store.get_many([good, gone, good])
    assert found[0] == found[2] == b"here"
    assert isinstance(found[1], BlobMissing)


@pytest.mark.parametrize(
    "key",
    ["", "x", "../../etc/passwd", "/etc/passwd#0+10", f"../{'0' * 62}.pack#0+1", f"00/{'0' * 62}.pack#-1+1", "a#b+c"],
)
async def test_what_is_no_key_finds_nothing(store: Blobs, key: str) -> None:
    with pytest.raises(BlobMissing):
        await store.get(key)


@pytest.mark.parametrize("announced", [True, False])
async def test_bytes_that_unpack_to_far_too_much_are_refused(
    store: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr(blobs_module, "MAX_SIZE", 1 << 20)
    frame = zstandard.ZstdCompressor(write_content_size=announced).compress(bytes(64 << 20))
    assert len(frame) < 10_000
    with pytest.raises(BlobDamaged):
        await store.get(plant(tmp_path, frame))


@pytest.mark.parametrize("frame", [b"not zstd at all", zstandard.ZstdCompressor().compress(b"cut off" * 99)[:-4]])
async def test_damaged_bytes_are_a_permanent_failure(store: Blobs, tmp_path: Path, frame: bytes) -> None:
    with pytest.raises(BlobDamaged):
        await store.get(plant(tmp_path, frame))


async def test_damaged_bytes_among_many_cost_only_themselves(store: Blobs, tmp_path: Path) -> None:
    good = await store.put_many(BODIES)
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(random.Random(5).randbytes(9_000))
    damaged = [plant(tmp_path, frame) for frame in (b"not zstd at all", whole[:-2] + b"xx", whole[: len(whole) // 2])]
    mixed = [key for pair in zip(good, damaged * 2, strict=False) for key in pair]
    found = await store.get_many(mixed)
    assert found[::2] == BODIES
    assert {type(one) for one in found[1::2]} == {BlobDamaged}


async def test_bytes_that_changed_on_the_disk_are_noticed(store: Blobs, tmp_path: Path) -> None:
    key = await store.put(random.Random(3).randbytes(1000))
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    with pytest.raises(BlobDamaged):
        await store.get(key)


async def test_a_pack_that_was_cut_off_is_damaged_for_ever(store: Blobs, tmp_path: Path) -> None:
    first, second = await store.put_many([b"a" * 100, random.Random(4).randbytes(1000)])
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    found = await store.get_many([first, second])
    assert found[0] == b"a" * 100
    assert isinstance(found[1], BlobDamaged)
    path.write_bytes(path.read_bytes()[:21])
    found = await store.get_many([second, first, second])
    assert found[1] == b"a" * 100
    assert [type(found[place]) for place in (0, 2)] == [BlobDamaged, BlobDamaged]
