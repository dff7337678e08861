"""Test a cleaning that a crash interrupts at any file operation, also during the recovery.

Whatever was done by then: of each key the latest value is there, no offset is given again, transactions stay what they
were, and the next cleaning comes to the same end.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.files.file_ops import FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from tests.broker.log.cleaner.support import batches_of, clean, keyed, records_of, table_of
from tests.broker.log.support import NOW, FaultyOps, marker, open_log
from tests.crash.lossy_disk import NoSync

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=150, delete_retention_ms=1000)
# When it is cleaned, several segments become one.
LARGER = CONFIG.with_changes(segment_bytes=1500)
PRODUCER = 5


class Interrupted(FaultyOps):
    """File operations that fail from a chosen one on; what is written needs no forcing, for the machine goes on."""

    __slots__ = ()

    def fsync(self, fd: int) -> None:
        self._maybe_fail("fsync", fd)

    def fsync_dir(self, path: str) -> None:
        self._maybe_fail("fsync_dir", path)


def fill(log: Log) -> None:
    """Segments of superseded keys, tombstones, aborted and committed transactions; the last segments leave nothing."""

    def append(*pairs: tuple[bytes, bytes | None], **options: object) -> None:
        log.append_batch(
            keyed(pairs, **options),  # type: ignore[arg-type]
            leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR, in_transaction=bool(options.get("transactional")),
        )  # fmt: skip

    sequence = 0
    for index in range(24):
        transactional = index % 4 == 1
        options: dict[str, object] = {}
        if transactional:
            options = {"producer_id": PRODUCER, "sequence": sequence, "transactional": True}
            sequence += 1
        value = None if index % 5 == 4 else b"%d" % index + b"v" * 40
        append((b"k%d" % (index % 6), value), (b"only%d" % index, b"w") if index % 3 == 0 else (b"z", b"z"), **options)
        sequence += transactional
        if transactional:
            log.append_batch(
                marker(PRODUCER, commit=index % 8 == 1), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR
            )
    for _ in range(6):
        append((b"z", b"last"), (b"z", b"last"))
    append((b"z", b"the last"))
    log.roll(NOW)
    log.high_watermark = log.log_end_offset


def prepare(root: Path) -> Path:
    """A log directory that was closed before it was cleaned the first time."""
    log = open_log(root, CONFIG)
    fill(log)
    log.close()
    return root / "t-0"


def copied(prepared: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(prepared, target / "t-0")
    return target


def reopened(root: Path, ops: FileOps | None = None) -> Log:
    """As after a crash: only what was flushed before the cleaning began is vouched for."""
    log = open_log(root, LARGER, recovery_point=0, ops=ops or NoSync())
    log.high_watermark = log.log_end_offset
    return log


def interrupted(root: Path, at: int) -> bool:
    """Clean, and let the `at`-th file operation and all after it fail; whether that came to pass."""
    ops = Interrupted()
    log = reopened(root, ops)
    log.flush()
    ops.persists = True
    ops.fail_at = at
    try:
        clean(log, ops=ops)
    except (OSError, KafkaStorageError):
        return True
    return False


class Expected:
    """The state that must hold after any crash, and the records that a complete cleaning leaves."""

    def __init__(self, prepared: Path, scratch: Path) -> None:
        log = reopened(copied(prepared, scratch))
        self.table = table_of(log)
        self.end = log.log_end_offset
        self.records = set(records_of(log))
        self.next_sequence = log.producers.producers[PRODUCER].next_sequence
        clean(log)
        self.cleaned = records_of(log)

    def check(self, log: Log) -> None:
        assert log.offline is None
        assert table_of(log) == self.table
        assert log.log_end_offset == self.end
        assert set(records_of(log)) <= self.records
        assert log.producers.producers[PRODUCER].next_sequence == self.next_sequence
        leftovers = [path for path in log.dir.iterdir() if path.suffix in (names.CLEANED, names.SWAP, names.DELETED)]
        assert leftovers == []

    def check_to_the_end(self, log: Log) -> None:
        self.check(log)
        clean(log, ops=NoSync())
        assert records_of(log) == self.cleaned
        assert table_of(log) == self.table


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def expected(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(prepared, tmp_path_factory.mktemp("expected"))


def crashes(prepared: Path, root: Path) -> Iterator[int]:
    """Each point at which a cleaning can be interrupted; the directory is then as the crash leaves it."""
    at = 1
    while interrupted(copied(prepared, root), at):
        yield at
        at += 1
    assert at > 50


def test_the_log_is_worth_the_name(expected: Expected, prepared: Path, tmp_path: Path) -> None:
    log = reopened(copied(prepared, tmp_path))
    assert len(log.segments) > 8
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 3
    before = len(records_of(log))
    clean(log)
    assert len(expected.cleaned) < before / 2
    assert [header.is_control for header, _ in batches_of(log)].count(True) > 0
    # The last cleaned segment ends long before the offset at which the next begins.
    assert len(log.segments) > 2


def test_a_crash_at_any_operation_loses_nothing(expected: Expected, prepared: Path, tmp_path: Path) -> None:
    for _ in crashes(prepared, tmp_path):
        expected.check_to_the_end(reopened(tmp_path))


@pytest.mark.exhaustive
def test_a_crash_in_the_recovery_after_a_crash(expected: Expected, prepared: Path, tmp_path: Path) -> None:
    seen: set[tuple[str, ...]] = set()
    tried = 0
    for _ in crashes(prepared, tmp_path / "crashed"):
        state = tuple(sorted(path.name for path in (tmp_path / "crashed" / "t-0").iterdir()))
        if state in seen or not any(name.endswith(names.SWAP) for name in state):
            continue
        seen.add(state)
        if len(seen) % 3:
            continue
        # Past the leftovers recovery is as after any crash.
        for again in range(1, 30, 2):
            root = copied(tmp_path / "crashed" / "t-0", tmp_path / "again")
            ops = Interrupted()
            ops.persists = True
            ops.fail_at = again
            try:
                reopened(root, ops)
                break
            except OSError:
                expected.check(reopened(root))
            tried += 1
    assert tried > 50


def test_an_index_is_renamed_after_its_log(expected: Expected, prepared: Path, tmp_path: Path) -> None:
    """Found first as an index in place beside a log that is not, it would be removed as one that was replaced, and a
    transaction index cannot be had back.
    """
    log = reopened(copied(prepared, tmp_path))
    clean(log)
    log.close()
    for path in sorted(log.dir.glob("0*")):
        if path.suffix in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
            path.rename(f"{path}{names.SWAP}")
    ops = FaultyOps()
    ops.fail["rename"] = 4
    with pytest.raises(OSError, match="injected"):
        reopened(tmp_path, ops)
    expected.check(reopened(tmp_path))
