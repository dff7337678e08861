"""Test that a compaction loses nothing, and that a later run finishes it after a crash."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_kafkalog import faults
from spark_kafkalog.load import compact as compaction
from spark_kafkalog.load.compact import Compacted
from spark_kafkalog.load.compact_plan import CompactionError, CompactionRunsError
from spark_kafkalog.load.formats import ParquetFormat
from spark_kafkalog.load.layout.file_names import COMPACTING, REPLACED, SIGN, load_name
from spark_kafkalog.load.layout.staging import Judge, SweptError
from spark_kafkalog.options.parsing import OptionsError
from tests.spark_kafkalog.load.compacting import POINTS, fill, interrupted, run
from tests.spark_kafkalog.load.loading import Loading, data_files, rows_of
from tests.spark_kafkalog.topics import T0_MS


def test_small_files_become_big_ones(loading: Loading) -> None:
    topic, rows = fill(loading, "compact")
    before = loading.history(topic)
    files = len(data_files(loading.files, loading.path(topic)))
    done = run(loading, topic)
    assert (done.files_before, done.files_after, done.rows) == (files, 4, len(rows))
    assert len(data_files(loading.files, loading.path(topic))) == 4
    assert loading.rows(topic) == rows
    assert loading.history(topic) == before, "the state is not touched"
    assert COMPACTING not in loading.names(topic)
    assert run(loading, topic) == Compacted()
    for file in data_files(loading.files, loading.path(topic)):
        offsets = pq.read_table(io.BytesIO(loading.files.read(file)))["offset"].to_pylist()
        assert offsets == sorted(offsets)


def test_loading_goes_on_after_a_compaction(loading: Loading) -> None:
    topic, rows = fill(loading, "goes-on", 2)
    run(loading, topic)
    sent = loading.topics.produce(topic, [b"new"] * 10)
    assert loading.load(topic).document is not None
    run(loading, topic)
    assert len(loading.rows(topic)) == len(rows) + len(sent)
    assert [each.load for each in loading.history(topic)] == [0, 1, 2]


def test_any_pattern_finds_every_row_once(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with patterns such as `**/*.parquet` do not skip names that begin with `_`."""
    topic, rows = fill(loading, "patterns")
    seen: list[str] = []

    def point(name: str) -> None:
        if name in ("compact-merged", "compact-exchanged"):
            seen.append(name)
            assert parquet_files(loading, topic) == set(data_files(loading.files, loading.path(topic))), name

    monkeypatch.setattr(faults, "point", point)
    assert run(loading, topic).rows == len(rows)
    assert seen == ["compact-merged", "compact-exchanged"]
    assert parquet_files(loading, topic) == set(data_files(loading.files, loading.path(topic)))


def parquet_files(loading: Loading, topic: str) -> set[str]:
    """Return all files of a topic that are called Parquet, wherever they lie."""

    def below(path: str) -> Iterator[str]:
        for each in loading.files.list(path):
            if each.is_directory:
                yield from below(f"{path}/{each.name}")
            elif each.name.endswith(".parquet"):
                yield f"{path}/{each.name}"

    return {path for path in below(loading.root) if f"/{topic}/" in path}


def test_a_compaction_that_an_earlier_version_began_is_finished(
    local_loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, rows = fill(local_loading, "earlier", 2)
    with monkeypatch.context() as patched:
        patched.setattr(compaction._Work.__init__, "__defaults__", (1,))
        assert interrupted(local_loading, topic, "hidden", 1, monkeypatch)
    (work,) = (Path(local_loading.path(topic)) / COMPACTING).iterdir()
    assert json.loads((work / "plan.json").read_text())["version"] == 1
    assert [each.suffix for each in work.glob("old/*/*/*")] == [".parquet"]
    monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
    run(local_loading, topic)
    assert local_loading.rows(topic) == rows


def test_some_loads_only(local_loading: Loading) -> None:
    topic, rows = fill(local_loading, "some")
    run(local_loading, topic, loads=range(1, 3))
    path = local_loading.path(topic)
    counts = [len(data_files(local_loading.files, f"{path}/{load_name(number)}")) for number in range(4)]
    assert counts[1] == 0
    assert counts[2] == 4
    assert local_loading.rows(topic) == rows


def test_old_and_new_records_of_a_recreated_topic_are_not_mixed(local_loading: Loading) -> None:
    topic, _ = fill(local_loading, "mixed", 2)
    old = [rows_of(local_loading.files, f"{local_loading.path(topic)}/{load_name(number)}") for number in (0, 1)]
    local_loading.topics.delete(topic)
    local_loading.topics.create_named(topic, 2)
    for round_ in range(2):
        record = {"value": b"new %d" % round_, "timestamp": T0_MS}
        local_loading.topics.produce(topic, [record] * 20, partition=0)
        local_loading.load(topic, restart_recreated=True)
    run(local_loading, topic)
    path = local_loading.path(topic)
    assert rows_of(local_loading.files, f"{path}/{load_name(1)}") == old[0] | old[1]
    assert len(rows_of(local_loading.files, f"{path}/{load_name(3)}")) == 40


def test_only_parquet(local_loading: Loading) -> None:
    topic = local_loading.topics.create("raw")
    local_loading.topics.produce(topic, [b"1"])
    local_loading.load(topic, format="raw")
    with pytest.raises(CompactionError, match="only parquet can be compacted"):
        run(local_loading, topic)


def test_what_cannot_be_merged_is_named(local_loading: Loading) -> None:
    topic, rows = fill(local_loading, "damaged", 2, partitions=1)
    path = Path(data_files(local_loading.files, local_loading.path(topic))[0])
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    with pytest.raises(CompactionError, match=rf"{re.escape(str(path))} cannot be read: .*leave its load out with"):
        run(local_loading, topic)
    path.write_bytes(data)
    foreign = path.with_name("part-0000.parquet")
    foreign.write_bytes(data)
    with pytest.raises(CompactionError, match=rf"{re.escape(str(path.parent))}: part-0000\.parquet .* Move it away"):
        run(local_loading, topic)
    foreign.unlink()
    pq.write_table(pq.read_table(path).drop_columns("headers"), path)
    with pytest.raises(CompactionError, match="has other columns than a load writes"):
        run(local_loading, topic)
    path.write_bytes(data)
    run(local_loading, topic)
    assert local_loading.rows(topic) == rows


def test_no_more_than_a_row_group_is_in_memory(local_loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows may be of a megabyte each: 65,536 of them are no bound."""
    topic = local_loading.topics.create("groups")
    monkeypatch.setattr("spark_kafkalog.load.formats.ROW_GROUP_BYTES", 1)
    monkeypatch.setattr("spark_kafkalog.executor.batch_pieces.PIECE_ROWS", 4)
    for _ in range(2):
        records = [{"value": b"x", "timestamp": T0_MS}] * 40
        local_loading.topics.produce(topic, records, partition=0, config={"batch.num.messages": 4})
        local_loading.load(topic, min_splits=1)
    sizes: list[int] = []
    real = ParquetFormat.write

    def write(self: ParquetFormat, batch: pa.RecordBatch) -> None:
        sizes.append(batch.num_rows)
        real(self, batch)

    monkeypatch.setattr(ParquetFormat, "write", write)
    run(local_loading, topic)
    assert sum(sizes) == 80
    assert max(sizes) <= 4


@pytest.mark.parametrize("seconds", [0.0, 29.0, float("nan")])
def test_runs_that_live_are_not_swept_by_mistake(local_loading: Loading, seconds: float) -> None:
    topic, _ = fill(local_loading, "stale", 1)
    with pytest.raises(OptionsError, match="--stale-after must be at least 30 seconds"):
        run(local_loading, topic, stale_after_s=seconds)


def test_what_to_do_by_hand_loses_nothing(local_loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is deleted under the hands of a compaction; whoever follows the error's advice has all other rows."""
    topic, rows = fill(local_loading, "by-hand", 3, partitions=1)
    path = Path(local_loading.path(topic))
    hour = sorted(path.glob("load=*2/date=*/hour=*"))[0]
    gone = rows_of(local_loading.files, str(hour))

    def point(name: str) -> None:
        if name == "compact-hidden" and hour.exists():
            shutil.rmtree(hour)

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", point)
        with pytest.raises(CompactionError, match="cannot go on") as raised:
            run(local_loading, topic)
    (work,) = (path / COMPACTING).iterdir()
    below = hour.relative_to(path / load_name(2))
    assert f"delete what {work}/plan.json names as outputs of group 0 in {path}/load=…/{below}, move" in str(
        raised.value
    )
    for merge in json.loads((work / "plan.json").read_text())["groups"][0]["merges"]:
        for place in path.glob(f"load=*/{below}/{merge['output']}"):
            place.unlink()
    for moved in (work / "old" / "0").glob("*/*"):
        moved.rename(path / load_name(int(moved.parent.name)) / below / moved.name.removesuffix(REPLACED))
    for sign in path.glob(f"load=*/*/*/{SIGN}*"):
        sign.unlink()
    shutil.rmtree(path / COMPACTING)
    left = {where: value for where, value in rows.items() if where not in gone}
    assert local_loading.rows(topic) == left
    run(local_loading, topic)
    assert local_loading.rows(topic) == left


def test_a_second_compaction_is_kept_out(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, rows = fill(loading, "second", 2)

    def point(name: str) -> None:
        if name == "compact-hidden":
            monkeypatch.setattr(faults, "point", lambda name: None)
            # There is something new to merge.
            for _ in range(2):
                loading.topics.produce(topic, [{"value": b"x", "timestamp": T0_MS + 9 * 3_600_000}] * 20)
                loading.load(topic, min_splits=4)
            with pytest.raises(CompactionRunsError, match="another compaction"):
                run(loading, topic)

    monkeypatch.setattr(faults, "point", point)
    run(loading, topic)
    assert len(loading.rows(topic)) == len(rows) + 40


@pytest.mark.parametrize("at", POINTS)
def test_a_compaction_that_died_is_finished(local_loading: Loading, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    die_and_finish(local_loading, at, monkeypatch)


@pytest.mark.peer
@pytest.mark.parametrize("at", POINTS)
def test_a_compaction_that_died_is_finished_in_hdfs(
    hdfs_loading: Loading, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_and_finish(hdfs_loading, at, monkeypatch)


def die_and_finish(loading: Loading, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first and at the third time of the point; every row is there once, and loading goes on."""
    topic, rows = fill(loading, "died", 2)
    for count in (1, 3):
        died = interrupted(loading, topic, at, count, monkeypatch)
        with contextlib.suppress(Exception):
            # Half way: every row once, or no answer.
            assert loading.rows(topic) == rows
        # It is taken for dead because its process is this one, whose leases are all stale by now.
        monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
        run(loading, topic)
        monkeypatch.undo()
        assert loading.rows(topic) == rows
        assert COMPACTING not in loading.names(topic)
        loading.topics.produce(topic, [b"more"] * 30)
        loading.load(topic, min_splits=4)
        rows = loading.rows(topic)
        if not died:
            break


def test_a_run_that_finishes_another_compaction_merges_what_is_left(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, rows = fill(loading, "finishes-both", 3, partitions=1)
    assert interrupted(loading, topic, "hidden", 1, monkeypatch, loads=range(2))
    monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
    # The two hours of the loads that are merged now, and of the one that was left out.
    assert run(loading, topic).files_after == 2
    assert loading.rows(topic) == rows
    assert len(data_files(loading.files, loading.path(topic))) == 2
    assert COMPACTING not in loading.names(topic)


def test_a_load_finishes_a_compaction_that_died(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, rows = fill(loading, "finishes", 2)
    assert interrupted(loading, topic, "hidden", 3, monkeypatch)
    with pytest.raises(Exception, match=r"(?i)parquet|magic"):
        loading.rows(topic)
    monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
    sent = loading.topics.produce(topic, [b"x"] * 3)
    loading.load(topic)
    assert len(loading.rows(topic)) == len(rows) + len(sent)


def test_a_load_without_anything_new_finishes_a_compaction_that_died(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers fail until somebody does."""
    topic, rows = fill(loading, "finishes-empty", 2)
    assert interrupted(loading, topic, "hidden", 3, monkeypatch)
    monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
    assert loading.load(topic).document is None
    assert loading.rows(topic) == rows
    assert COMPACTING not in loading.names(topic)


def test_a_former_owner_that_wakes_up_can_do_nothing(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is suspended between any two steps; another takes over, finishes, and compacts again."""
    topic, rows = fill(loading, "wakes", 3)
    real = faults.point
    count = 0

    def point(name: str) -> None:
        nonlocal count
        count += 1
        if name == "compact-hidden" and count > 3:
            monkeypatch.setattr(faults, "point", real)
            with monkeypatch.context() as patched:
                patched.setattr(Judge, "is_dead", lambda self, run: True)
                run(loading, topic)

    monkeypatch.setattr(faults, "point", point)
    with pytest.raises(SweptError, match="goes on with it"):
        run(loading, topic)
    assert loading.rows(topic) == rows
    assert not [each for each in data_files(loading.files, loading.path(topic)) if SIGN in each]
