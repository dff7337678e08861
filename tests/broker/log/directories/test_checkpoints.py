"""Tests of checkpoint files: golden bytes, damage, atomic replacement."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from broker.log.directories import checkpoints
from broker.log.directories.checkpoint_writer import CheckpointWriter
from broker.log.directories.log_dir import LogDir
from broker.log.files.file_ops import FileOps
from kafkalog.storage.checkpoints import CorruptCheckpointError
from tests.broker.log.support import open_log

DEADLINE_S = 60.0
TOPIC_ID = UUID("fb34de52-4c1f-4b55-9d3b-0a51b2a6c2f4")


def test_offset_checkpoint_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    offsets = {("orders", 0): 57, ("with-dash", 12): 1 << 40}
    checkpoints.write_offsets(path, offsets)
    assert Path(path).read_text() == "0\n2\norders 0 57\nwith-dash 12 1099511627776\n"
    assert checkpoints.read_offsets(path) == offsets


def test_leader_epoch_checkpoint_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "leader-epoch-checkpoint")
    checkpoints.write_epochs(path, [(0, 0), (4, 118)])
    assert Path(path).read_text() == "0\n2\n0 0\n4 118\n"
    assert checkpoints.read_epochs(path) == [(0, 0), (4, 118)]


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert checkpoints.read_offsets(str(tmp_path / "none")) == {}
    assert checkpoints.read_epochs(str(tmp_path / "none")) == []
    assert checkpoints.read_partition_metadata(str(tmp_path)) is None
    assert checkpoints.read_meta_properties(str(tmp_path)) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"0\n", b"1\n0\n", b"x\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na zero 1\n",
        "²\n0\n".encode(),
        "0\n²\n".encode(),
        b"0\n1\na 0 -1\n",
        b"0\n1\na -2 1\n",
        b"0\n1\na 0 99999999999999999999\n",
        b"0\n1\na 0 " + b"9" * 5000 + b"\n",
        b"0\n1\na 0 1\nb 0 1\n", b"\xff\xfe\n",
    ],
)  # fmt: skip
def test_damage_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="c"):
        checkpoints.read_offsets(str(tmp_path / "c"))


class FailingRename(FileOps):
    def rename(self, source: str, target: str) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    checkpoints.write_offsets(path, {("a", 0): 1})
    with pytest.raises(OSError, match="Input/output"):
        checkpoints.write_offsets(path, {("a", 0): 2}, FailingRename())
    assert checkpoints.read_offsets(path) == {("a", 0): 1}


def test_partition_metadata_bytes(tmp_path: Path) -> None:
    checkpoints.write_partition_metadata(str(tmp_path), TOPIC_ID)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: -zTeUkwfS1WdOwpRsqbC9A"
    assert checkpoints.read_partition_metadata(str(tmp_path)) == TOPIC_ID


def test_partition_metadata_that_a_power_failure_emptied(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").touch()
    assert checkpoints.read_partition_metadata(str(tmp_path)) is None


@pytest.mark.parametrize(
    "text", ["version: 0", "version: 0\ntopic_id: short", "version: 7\ntopic_id: -zTeUkwfS1WdOwpRsqbC9A"]
)
def test_damaged_partition_metadata_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CorruptCheckpointError):
        checkpoints.read_partition_metadata(str(tmp_path))


def test_the_clean_shutdown_marker_is_taken_once(tmp_path: Path) -> None:
    assert not checkpoints.take_clean_shutdown(str(tmp_path))
    checkpoints.write_clean_shutdown(str(tmp_path))
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert checkpoints.take_clean_shutdown(str(tmp_path))
    assert not checkpoints.take_clean_shutdown(str(tmp_path))


def test_meta_properties_as_java_writes_them(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat Nov 21 04:00:00 UTC 2026\nbroker.id=0\nversion=0\ncluster.id=q0TEtQH5S8yDZ\\=x\n"
    )
    assert checkpoints.read_meta_properties(str(tmp_path)) == {
        "broker.id": "0", "version": "0", "cluster.id": "q0TEtQH5S8yDZ=x",
    }  # fmt: skip


def test_who_asks_for_a_row_waits_for_no_disk(tmp_path: Path) -> None:
    """Ask on the event loop, as the making of a partition does, while a worker forces a checkpoint to the device."""
    directory = LogDir(tmp_path)
    writer = CheckpointWriter([directory], lambda path, reason: None)
    log = open_log(tmp_path)
    begun, done = threading.Event(), threading.Event()

    def slow(directory: LogDir, rows: Mapping[tuple[str, int], int]) -> None:
        begun.set()
        assert done.wait(DEADLINE_S)

    with ThreadPoolExecutor(2) as pool:
        assert not writer.mentions(("t", 0))
        writing = pool.submit(writer.write, slow, {("t", 0): log}, lambda log: 7)
        assert begun.wait(DEADLINE_S)
        try:
            # The file may have the row already.
            assert pool.submit(writer.mentions, ("t", 0)).result(DEADLINE_S)
            assert not pool.submit(writer.mentions, ("u", 0)).result(DEADLINE_S)
        finally:
            done.set()
        assert writing.result(DEADLINE_S)
    assert writer.mentions(("t", 0))
    writer.write(slow, {}, lambda log: 7)
    assert not writer.mentions(("t", 0))
