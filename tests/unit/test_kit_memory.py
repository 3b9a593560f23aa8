"""Memory as the kernel tells it: cgroups of both versions, with and without a limit."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from limpet.kit.memory import Memory, read_cgroup, read_memory

MB = 1 << 20


def version_2(folder: Path, *, most: str, current: int = 500 * MB) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{current}\n")
    (folder / "memory.stat").write_text(f"anon 1\nactive_file {50 * MB}\ninactive_file {150 * MB}\n")


def version_1(folder: Path, *, most: int, current: int = 500 * MB) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{most}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{current}\n")
    (folder / "memory.stat").write_text(f"total_active_file {100 * MB}\ntotal_inactive_file {100 * MB}\n")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own"


def test_f1_version_2_is_read_without_the_cache_that_the_kernel_can_take_back(tmp_path: Path, own: Path) -> None:
    own.write_text("0::/\n")
    version_2(tmp_path, most=str(1000 * MB))
    assert read_cgroup(tmp_path, own) == Memory(300 * MB, 1000 * MB)


def test_f1_version_1_is_read_the_same_way_beside_an_empty_version_2(tmp_path: Path, own: Path) -> None:
    own.write_text("4:memory:/pod/one\n1:cpu:/\n0::/\n")
    version_1(tmp_path / "memory" / "pod" / "one", most=1000 * MB)
    assert read_cgroup(tmp_path, own) == Memory(300 * MB, 1000 * MB)


def test_f1_the_nearest_cgroup_with_a_limit_counts_with_its_own_use(tmp_path: Path, own: Path) -> None:
    own.write_text("0::/pod/one\n")
    version_2(tmp_path / "pod" / "one", most="max", current=1 * MB)
    version_2(tmp_path / "pod", most=str(900 * MB))
    version_2(tmp_path, most=str(9000 * MB))
    assert read_cgroup(tmp_path, own) == Memory(300 * MB, 900 * MB)


def test_f1_a_path_of_the_host_that_is_not_to_be_seen_leads_to_the_root(tmp_path: Path, own: Path) -> None:
    own.write_text("0::/kubepods/burstable/pod1/abc\n")
    version_2(tmp_path, most=str(1000 * MB))
    assert read_cgroup(tmp_path, own) == Memory(300 * MB, 1000 * MB)


@pytest.mark.parametrize("lines", ["0::/\n", "4:memory:/\n", "", "1:cpu:/\n"])
def test_f1_without_a_limit_there_is_no_cgroup_to_speak_of(tmp_path: Path, own: Path, lines: str) -> None:
    own.write_text(lines)
    version_2(tmp_path, most="max")
    version_1(tmp_path / "memory", most=9223372036854771712)
    assert read_cgroup(tmp_path, own) is None
    assert read_cgroup(tmp_path, tmp_path / "missing") is None


def test_f1_a_process_without_a_cgroup_of_its_own_knows_its_own_memory() -> None:
    """Here the tests share whatever cgroup there is with others."""
    process = psutil.Process()
    memory = read_memory(process)
    assert memory.used > 10 * MB
    assert memory.limit or memory.used == pytest.approx(process.memory_info().rss, rel=0.2)
