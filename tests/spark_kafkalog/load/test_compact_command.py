"""Tests of `kafkalog load compact` with several topics, of which some cannot be compacted."""

from __future__ import annotations

from pathlib import Path

from spark_kafkalog.load.layout.file_names import COMPACTING, OFFSETS_FILE, STAGING, load_name
from tests.spark_kafkalog.load.compacting import publish_loads
from tests.support.command import call


def test_a_topic_whose_files_fail_keeps_no_other_from_it(tmp_path: Path) -> None:
    for topic in ("a", "b"):
        publish_loads(f"{tmp_path}/{topic}")
    (tmp_path / STAGING).mkdir()
    (tmp_path / STAGING / "a").touch()
    done = call("load", "compact", "--to", str(tmp_path), check=1)
    assert done.out == ["b: 3 files became 1 (3 rows, 0.0 MB)"]
    for err in (done.err, call("load", "compact", "--to", str(tmp_path), "--topic", "a", check=1).err):
        assert err.startswith("kafkalog: a cannot be compacted: [Errno 20] Not a directory")


def test_a_failure_is_told_though_another_topic_lost_a_race(tmp_path: Path) -> None:
    for topic in ("a", "b", "c"):
        publish_loads(f"{tmp_path}/{topic}")
    for topic in ("a", "c"):
        for place in (tmp_path / STAGING / topic / "other", tmp_path / topic / COMPACTING / "other"):
            place.mkdir(parents=True)
    call("load", "compact", "--to", str(tmp_path), check=3)
    (tmp_path / "b" / load_name(1) / OFFSETS_FILE).unlink()
    done = call("load", "compact", "--to", str(tmp_path), check=1)
    assert done.err.count("another compaction (other) of") == 2
