"""Tests of a full disk: the right error, continued reads, no loss of acknowledged records, recovery with new space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog.protocol.errors import ErrorCode
from tests.crash.support import create_topic, read_all
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, produce

SMALL = {"log.index.size.max.bytes": "8192", "log.index.interval.bytes": "65536"}


def fill(broker: KafkalogBroker, partition: int, producer_id: int = -1) -> tuple[list[bytes], int]:
    """Produce until it is refused, with sequences if there is a producer id; the acknowledged values and the error."""
    values: list[bytes] = []
    epoch = 0 if producer_id >= 0 else -1
    with broker.connect() as sock:
        while True:
            value = b"%08d" % len(values) + os.urandom(20_000)
            sequence = len(values) if producer_id >= 0 else -1
            sent = batch([value], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            result = produce(sock, "t", sent, partition)
            if result.error_code:
                return values, result.error_code
            assert result.base_offset == len(values)
            values.append(value)
            assert len(values) < 5000, "the disk never filled"


def test_files_that_may_not_grow(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    """A limit on file size (EFBIG), which needs no privileges."""
    broker = KafkalogBroker(tmp_path / "limited", SMALL)
    broker.prefix = ["bash", "-c", 'ulimit -f 1024; exec "$@"', "limited"]
    with broker:
        create_topic(broker, "t", 2)
        values, error = fill(broker, 0)
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        with broker.connect() as sock:
            assert produce(sock, "t", batch([b"other"]), 1).error_code == 0
            assert produce(sock, "t", batch([os.urandom(20_000)]), 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert list(read_all(broker, "t", 0).values()) == values
        broker.kill()
        broker.prefix = []
        broker.start()
        assert list(read_all(broker, "t", 0).values()) == values
        with broker.connect() as sock:
            assert produce(sock, "t", batch([b"room again"]), 0).base_offset == len(values)


@pytest.fixture
def small_disk(processes: None, tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here (it takes root): {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_file_system(tmp_path: Path, small_disk: Path) -> None:
    """ENOSPC; once there is room again the same broker appends on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (1 << 20))
    with KafkalogBroker(tmp_path / "broker", {**SMALL, "log.dirs": str(small_disk / "log")}) as broker:
        create_topic(broker, "t", 1)
        values, error = fill(broker, 0)
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert list(read_all(broker, "t", 0).values()) == values
        ballast.unlink()
        with broker.connect() as sock:
            assert produce(sock, "t", batch([b"room again"]), 0).base_offset == len(values)
        broker.kill()
        broker.start()
        assert list(read_all(broker, "t", 0).values()) == [*values, b"room again"]


def stuff(path: Path) -> None:
    """Take the last byte of a file system."""
    with path.open("ab") as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    os.write(file.fileno(), bytes(size))


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_broker_starts_on_a_full_file_system(tmp_path: Path, small_disk: Path, clean: bool) -> None:
    """A lack of room does not stop a start, because the log has all that recovery would write."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (1 << 20))
    settings = {"log.dirs": str(small_disk / "log"), "log.segment.bytes": "1048576"}
    with KafkalogBroker(tmp_path / "broker", settings) as broker:
        create_topic(broker, "t", 1)
        values, _ = fill(broker, 0, producer_id=7)
        if clean:
            broker.stop()
        else:
            broker.kill()
        stuff(ballast)
        broker.start()
        assert list(read_all(broker, "t", 0).values()) == values
        with broker.connect() as sock:
            assert produce(sock, "t", batch([os.urandom(20_000)]), 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.kill()
        broker.start()
        ballast.unlink()
        with broker.connect() as sock:
            again = batch(values[-1:], producer_id=7, producer_epoch=0, base_sequence=len(values) - 1)
            assert produce(sock, "t", again, 0).base_offset == len(values) - 1, "a duplicate was appended"
            assert produce(sock, "t", batch([b"room again"]), 0).base_offset == len(values)
        broker.kill()
        broker.start()
        assert list(read_all(broker, "t", 0).values()) == [*values, b"room again"]


def partition_in(directory: Path) -> int:
    (found,) = (int(path.name.rpartition("-")[2]) for path in directory.glob("t-?"))
    return found


def test_a_full_log_directory_leaves_the_other_serving(tmp_path: Path, small_disk: Path) -> None:
    """ENOSPC in one of two, also for its checkpoints, which are written all the time."""
    full, roomy = small_disk / "log", tmp_path / "roomy"
    settings = {
        **SMALL,
        "log.dirs": f"{full},{roomy}",
        "log.flush.offset.checkpoint.interval.ms": "20",
        "log.flush.interval.messages": "1",
    }
    with KafkalogBroker(tmp_path / "broker", settings) as broker:
        create_topic(broker, "t", 2)
        tight, free = partition_in(full), partition_in(roomy)
        ballast = small_disk / "ballast"
        values, error = fill(broker, tight)
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        # The last bytes, too, so that no checkpoint finds room.
        stuff(ballast)
        broker.wait_logged(f"Cannot write a checkpoint in {full}")
        with broker.connect() as sock:
            for n in range(5):
                assert produce(sock, "t", batch([b"%d" % n]), free).base_offset == n
                assert produce(sock, "t", batch([b"x" * 20_000]), tight).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert list(read_all(broker, "t", tight).values()) == values
        assert "Stopping serving logs" not in broker.logged()
        ballast.unlink()
        with broker.connect() as sock:
            assert produce(sock, "t", batch([b"room again"]), tight).base_offset == len(values)
        broker.kill()
        broker.start()
        assert list(read_all(broker, "t", tight).values()) == [*values, b"room again"]
        assert list(read_all(broker, "t", free).values()) == [b"%d" % n for n in range(5)]
