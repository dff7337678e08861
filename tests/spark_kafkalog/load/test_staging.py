"""Tests of leases, removal of dead runs, and publishing under races."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_kafkalog.fs.interface import Files
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.fs.opening import open_files
from spark_kafkalog.load.layout import published
from spark_kafkalog.load.layout.file_names import OFFSETS_FILE, load_name, old_staging_path, staging_path
from spark_kafkalog.load.layout.offsets_document import Offsets
from spark_kafkalog.load.layout.published import LostRaceError, StateError
from spark_kafkalog.load.layout.staging import LEASE, Judge, Staging, SweptError, sweep
from tests.support.waiting import wait_until

LOADERS = 6


@pytest.fixture
def place(target: str) -> tuple[Files, str]:
    files, path = open_files(target)
    return files, f"{path}/words"


def document(load: int, run_id: str) -> Offsets:
    return Offsets("words", "", load, load - 1 if load else None, run_id, "now", "parquet", {})


def prepare(files: Files, staging: Staging, load: int) -> tuple[str, Offsets]:
    found = document(load, staging.run_id)
    prepared = f"{staging.path}/load"
    files.make_directories(prepared)
    files.write(f"{prepared}/{OFFSETS_FILE}", found.to_json().encode())
    return prepared, found


def test_a_lease_is_kept_until_the_end(place: tuple[Files, str]) -> None:
    files, path = place
    with Staging(files, path, heartbeat_s=0.05) as staging:
        lease = f"{staging.path}/{LEASE}"
        first = files.stat(lease)
        assert first is not None

        def renewed() -> bool:
            now = files.stat(lease)
            return now is not None and now.modified_ms > first.modified_ms

        wait_until(renewed, "a new lease")
        staging.check()
    assert files.stat(staging.path) is None


def test_the_lease_may_be_renewed_by_several_threads(place: tuple[Files, str]) -> None:
    """The thread of the heartbeat and the one that sweeps. Of two writers of a file HDFS lets the earlier one fail."""
    files, path = place
    with Staging(files, path, heartbeat_s=3600) as staging, ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(staging.renew) for _ in range(100)]:
            each.result()
        staging.check()


def test_dead_runs_are_swept_and_living_ones_are_not(place: tuple[Files, str]) -> None:
    files, path = place
    with Staging(files, path) as living, Staging(files, path) as silent, Staging(files, path) as own:
        for run in (living, silent):
            files.make_directories(f"{run.path}/attempts/1")
            files.write(f"{run.path}/attempts/1/0.parquet", b"x")
        # As if its machine had gone away: of another one, and not renewed any more.
        lease = f"{silent.path}/{LEASE}"
        files.replace(lease, json.dumps({"machine": "other", "process": 1}).encode())
        found = files.stat(lease)
        assert found is not None

        def stale() -> bool:
            living.renew()
            return Judge.of(files, own, 2.0).oldest_ms > found.modified_ms

        wait_until(stale, "the lease to be old")
        living.renew()
        assert sweep(files, own, 2.0) == [silent.run_id]
        assert sorted(each.name for each in files.list(staging_path(path))) == sorted([living.run_id, own.run_id])
        living.check()
        with pytest.raises(SweptError, match="Run the load again"):
            silent.check()


def test_runs_of_earlier_versions_are_swept_below_the_topic(place: tuple[Files, str]) -> None:
    files, path = place
    old = old_staging_path(path)
    for name in ("20261121T184153-509a4367", "20261121T184153-509a4367-replaced"):
        files.make_directories(f"{old}/{name}/load")
        files.write(f"{old}/{name}/load/x.parquet", b"x")
    with Staging(files, path) as own:
        assert sweep(files, own, 600.0) == []

        def swept() -> bool:
            own.renew()
            return sweep(files, own, 0.0) != [] and files.stat(old) is None

        wait_until(swept, "the sweeping")
        own.check()


@pytest.mark.usefixtures("processes")
def test_a_process_of_this_machine_that_has_ended_is_dead_at_once(place: tuple[Files, str]) -> None:
    files, path = place
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with Staging(files, path) as dead, Staging(files, path) as own:
        lease = json.loads(files.read(f"{dead.path}/{LEASE}"))
        if lease["machine"] is None:
            pytest.skip("this system does not tell which machine it is")
        assert lease["process"] == os.getpid()
        assert sweep(files, own, 600) == []
        files.replace(f"{dead.path}/{LEASE}", json.dumps(lease | {"process": process.pid}).encode())
        assert sweep(files, own, 600) == [dead.run_id]


@pytest.mark.usefixtures("processes")
def test_a_run_of_this_machine_lives_though_the_clock_was_set(tmp_path: Path) -> None:
    """Its lease is as old as if the clock had been set forward since. What counts is the clock that nobody sets."""
    files, path = LocalFiles(), f"{tmp_path}/words"
    with Staging(files, path, heartbeat_s=3600) as living, Staging(files, path) as own:
        lease = Path(living.path) / LEASE
        written = json.loads(lease.read_text())
        if written["machine"] is None:
            pytest.skip("this system does not tell which machine it is")
        os.utime(lease, (0, 0))
        assert sweep(files, own, 600) == []
        living.check()
        # Suspended for that long, or its number is another process's now.
        lease.write_text(json.dumps(written | {"monotonic": written["monotonic"] - 601}))
        assert sweep(files, own, 600) == [living.run_id]


@pytest.mark.parametrize("more", [{"clock": "other"}, {"monotonic": None}, {"monotonic": "x"}, {"machine": "other"}])
def test_other_runs_are_judged_by_the_age_of_their_leases(tmp_path: Path, more: dict[str, object]) -> None:
    files, path = LocalFiles(), f"{tmp_path}/words"
    with Staging(files, path, heartbeat_s=3600) as silent, Staging(files, path) as own:
        lease = Path(silent.path) / LEASE
        lease.write_text(json.dumps(json.loads(lease.read_text()) | more))
        assert sweep(files, own, 600) == []
        os.utime(lease, (0, 0))
        assert sweep(files, own, 600) == [silent.run_id]


@pytest.mark.parametrize("process", [10**30, -(10**30), "x", None, [1]])
def test_a_lease_that_is_none_is_judged_by_its_age(place: tuple[Files, str], process: object) -> None:
    files, path = place
    with Staging(files, path) as odd, Staging(files, path) as own:
        lease = json.loads(files.read(f"{odd.path}/{LEASE}"))
        files.replace(f"{odd.path}/{LEASE}", json.dumps(lease | {"process": process}).encode())
        assert sweep(files, own, 600) == []


def test_directories_that_a_run_makes_are_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the first load of a topic could be gone with all of them after the machine has failed."""
    synced: list[str] = []
    monkeypatch.setattr(LocalFiles, "sync", lambda self, path: synced.append(path))
    for _ in range(2):
        with Staging(LocalFiles(), f"{tmp_path}/a/b/words"):
            pass
    below = ("", "/a", "/a/b", "/a/b/_staging")
    assert sorted(set(synced)) == [f"{tmp_path}{each}" for each in below]


def test_a_swept_run_that_lives_publishes_nothing(place: tuple[Files, str]) -> None:
    files, path = place
    with Staging(files, path) as slow:
        prepared, found = prepare(files, slow, 0)
        with Staging(files, path) as other:
            files.replace(f"{slow.path}/{LEASE}", json.dumps({"machine": "other", "process": 1}).encode())
            wait_until(lambda: sweep(files, other, 0.0) == [slow.run_id], "the sweeping")
        with pytest.raises(FileNotFoundError):
            published.publish(files, path, prepared, found)
    assert published.numbers(files, path) == []


def test_of_loaders_that_saw_the_same_state_one_publishes(place: tuple[Files, str]) -> None:
    files, path = place
    for load in range(4):
        barrier = threading.Barrier(LOADERS)
        outcomes: list[object] = []

        def publish(barrier: threading.Barrier, outcomes: list[object], load: int) -> None:
            with Staging(files, path) as staging:
                prepared, found = prepare(files, staging, load)
                barrier.wait(30)
                try:
                    published.publish(files, path, prepared, found)
                    outcomes.append(found.run_id)
                except LostRaceError as error:
                    outcomes.append(error)

        threads = [threading.Thread(target=publish, args=(barrier, outcomes, load)) for _ in range(LOADERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [each for each in outcomes if isinstance(each, str)]
        assert len(won) == 1
        assert published.read_document(files, path, load).run_id == won[0]
        assert len([each for each in outcomes if isinstance(each, LostRaceError)]) == LOADERS - 1
    assert published.numbers(files, path) == [0, 1, 2, 3]
    assert files.list(staging_path(path)) == []


def test_a_publishing_whose_answer_was_lost_counts(place: tuple[Files, str]) -> None:
    files, path = place
    with Staging(files, path) as staging:
        prepared, found = prepare(files, staging, 0)
        published.publish(files, path, prepared, found)
        # The client asks again, and hears that the source is gone and the target there.
        assert published.publish(files, path, prepared, found) == f"{path}/{load_name(0)}"


def test_a_publishing_whose_answer_was_lost_is_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the load could be gone after the machine has failed, though the run has told that it is published."""
    files, path = LocalFiles(), f"{tmp_path}/words"
    rename, events = LocalFiles.rename, list[str]()

    def rename_and_fail(self: LocalFiles, source: str, target: str) -> None:
        rename(self, source, target)
        events.append("renamed")
        raise OSError("no answer")

    with Staging(files, path) as staging:
        prepared, found = prepare(files, staging, 0)
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "rename", rename_and_fail)
            patched.setattr(LocalFiles, "sync", lambda self, path: events.append(path))
            assert published.publish(files, path, prepared, found) == f"{path}/{load_name(0)}"
    assert events == ["renamed", path]


def test_a_load_without_its_document_is_an_error(place: tuple[Files, str]) -> None:
    files, path = place
    files.make_directories(f"{path}/{load_name(3)}")
    with pytest.raises(StateError, match=r"_offsets\.json is missing"):
        published.newest(files, path)
    files.write(f"{path}/{load_name(3)}/{OFFSETS_FILE}", document(2, "x").to_json().encode())
    with pytest.raises(StateError, match="the directory was renamed"):
        published.newest(files, path)


def test_the_document_of_another_topic_is_not_believed(place: tuple[Files, str]) -> None:
    """A directory that was renamed or copied: its offsets are another topic's."""
    files, path = place
    other = path.replace("words", "clicks")
    files.make_directories(f"{other}/{load_name(0)}")
    files.write(f"{other}/{load_name(0)}/{OFFSETS_FILE}", document(0, "x").to_json().encode())
    with pytest.raises(StateError, match="is of the topic words, and tells nothing about clicks"):
        published.newest(files, other)


def test_a_document_that_cannot_be_read_is_named(place: tuple[Files, str], tmp_path: Path) -> None:
    files, path = place
    files.make_directories(f"{path}/{load_name(0)}")
    files.write(f"{path}/{load_name(0)}/{OFFSETS_FILE}", b'{"version": 9}')
    with pytest.raises(StateError, match=r"words/load=0000000000/_offsets\.json: version is 9"):
        published.newest(files, path)
