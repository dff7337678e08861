"""Helpers of the log's tests: batches to append, temporary directories, file operations that fail on command."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from broker.log.append.append_info import AppendInfo
from broker.log.append.legacy.message_sets import prepare_set
from broker.log.append.validation import Origin
from broker.log.files.file_ops import OS, Buffer, FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from kafkalog.records.batch import MAGIC, MAGIC_AT, Record, decode_batch, encode_batch, iter_headers
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker

NOW = 1_700_000_000_000


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Make a directory for one Hypothesis example."""
    path = Path(tempfile.mkdtemp(prefix="kafkalog-log-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def records(
    values: Sequence[bytes], *, key: bytes | None = None, timestamp: int = NOW, step: int = 0, base: int = 0
) -> list[Record]:
    """Return records with these values; timestamps grow by `step`."""
    return [Record(base + i, timestamp + i * step, key, value, ()) for i, value in enumerate(values)]


def batch(
    values: Sequence[bytes] | int = 1,
    *,
    size: int = 20,
    key: bytes | None = None,
    timestamp: int = NOW,
    step: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """Return a produced batch; `values` may be a number of records of `size` bytes."""
    if isinstance(values, int):
        values = [b"%0*d" % (size, i) for i in range(values)]
    return memoryview(
        encode_batch(
            records(values, key=key, timestamp=timestamp, step=step, base=base_offset),
            codec=codec,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            is_control=is_control,
        )
    )


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    now_ms: int = NOW,
    ops: FileOps = OS,
    resources: LogResources | None = None,
) -> Log:
    """Open the log of partition t-0 in `directory`; create both if they do not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    return Log.open(
        directory / "t-0",
        config or LogConfig(),
        clean=clean,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        now_ms=now_ms,
        ops=ops,
        resources=resources,
    )


def append_any(
    log: Log, records: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
) -> AppendInfo:
    """Append produced bytes of any format, as the broker does."""
    if log.config.message_format == MAGIC and len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC:
        return log.append_batch(records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)
    prepared = prepare_set(records, log.config, now_ms, origin, f"{log.topic}-{log.partition}")
    return log.append_legacy(prepared, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)


class FaultyOps(FileOps):
    """Real file operations, of which chosen ones fail.

    With `fail["pwrite"] = 3` the third write from now on, and those after it, fail with `error`. With
    `fail_at = 3` the third call of any kind fails, and with `persists` all after it. With `short` writes write
    half. `calls` lists the calls in order (an fsync by its file's path).
    """

    __slots__ = ("calls", "error", "fail", "fail_at", "persists", "short")

    def __init__(self, error: int = errno.EIO) -> None:
        self.error = error
        self.fail: dict[str, int] = {}
        self.fail_at: int | None = None
        self.persists = False
        self.short = False
        self.calls: list[tuple[str, str | int]] = []

    def heal(self) -> None:
        """Let no further operation fail."""
        self.fail.clear()
        self.fail_at = None
        self.short = False

    def _maybe_fail(self, call: str, what: str | int) -> None:
        self.calls.append((call, what))
        left = self.fail.get(call)
        if left is not None:
            self.fail[call] = left - 1
            if left <= 1:
                raise OSError(self.error, "injected failure")
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at == 0 or (self.persists and self.fail_at < 0):
                raise OSError(self.error, "injected failure")

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._maybe_fail("open", path)
        return super().open(path, flags, mode)

    def pwrite(self, fd: int, data: Buffer, position: int, /) -> int:
        try:
            self._maybe_fail("pwrite", fd)
        except OSError:
            # As a full disk does: some of it is written before the call that fails.
            super().pwrite(fd, memoryview(data)[: len(data) // 3], position)
            raise
        if self.short and len(data) > 1:
            data = memoryview(data)[: len(data) // 2]
        return super().pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        self._maybe_fail("ftruncate", size)
        super().ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._maybe_fail("fsync", os.readlink(f"/proc/self/fd/{fd}"))
        super().fsync(fd)

    def fsync_dir(self, path: str) -> None:
        self._maybe_fail("fsync_dir", path)
        super().fsync_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._maybe_fail("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._maybe_fail("unlink", path)
        super().unlink(path)


def marker(producer_id: int, *, epoch: int = 0, commit: bool = False, coordinator_epoch: int = 0) -> memoryview:
    """Return a transaction marker as a coordinator appends it."""
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    return memoryview(
        EndTransactionMarker(kind, coordinator_epoch).encode(
            timestamp=NOW, producer_id=producer_id, producer_epoch=epoch
        )
    )


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Limit the number of further files that this process may open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held: list[int] = []
    # The system gives the lowest number that is free.
    while not held or held[-1] <= highest:
        held.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in held:
            os.close(fd)


class Stored(NamedTuple):
    """One batch of a log, as read back."""

    base_offset: int
    last_offset: int
    values: tuple[bytes | None, ...]


def stored(log: Log, start: int | None = None) -> list[Stored]:
    """Read every batch from `start` (default: the log start offset) in small steps; check CRCs."""
    found: list[Stored] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        data = log.read(offset, 500).read()
        for position, header in iter_headers(data):
            _, decoded = decode_batch(data, position)
            found.append(Stored(header.base_offset, header.last_offset, tuple(record.value for record in decoded)))
        assert found, f"nothing at {offset} of {log}"
        assert found[-1].last_offset >= offset, f"nothing at {offset} of {log}"
        offset = found[-1].last_offset + 1
    return found
