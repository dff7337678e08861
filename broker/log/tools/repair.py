"""Repairing the logs of a stopped broker.

Removed files and bytes are kept in `.repair-<time>` within the partition's directory, where neither this broker nor
Apache Kafka's looks at directories. For files at the top of a log directory they are kept beside the file.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from broker.log.directories.checkpoints import salvage_offsets, write_epochs, write_offsets
from broker.log.files.file_ops import OS
from broker.log.log_config import LogConfig
from broker.log.recovery.transaction_rebuild import rebuild_transaction_index
from broker.log.segment.batch_scan import headers, is_zero
from broker.log.segment.segment import Segment
from broker.log.tools.repair_plan import (
    Action,
    CutLog,
    MoveAway,
    Plan,
    RebuildIndexes,
    RebuildTransactions,
    ReplaceRanges,
    RewriteEpochs,
)
from broker.log.tools.targets import partition_at
from kafkalog.records.any_format import decode_any, read_any_header
from kafkalog.records.batch import HEADER_SIZE, BatchHeader, encode_batch, pack_header, read_header
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError

COPY_BYTES = 4 << 20
MOST_OFFSETS = (1 << 31) - 1
"""The most offsets that one batch can span."""


class InUseError(Exception):
    """A running broker holds the lock of a log directory; the message names it."""


@contextmanager
def locked(log_dirs: list[str]) -> Iterator[None]:
    """Hold the locks of the log directories, so that no broker starts meanwhile.

    Raises:
        InUseError: a broker uses one of them.
        OSError: a lock file cannot be opened.
    """
    held: set[tuple[int, int]] = set()
    with ExitStack() as stack:
        for log_dir in log_dirs:
            path = os.path.join(log_dir, names.LOCK)
            if not os.path.exists(path):
                continue
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) in held:
                # The directory has several names. Our own lock would pass for that of a broker.
                continue
            held.add((status.st_dev, status.st_ino))
            try:
                # Take both kinds of lock: this broker uses flock, Apache Kafka a POSIX lock.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InUseError(
                    f"{log_dir} is in use by a running broker: stop it, then repair (its own start repairs it, too)"
                ) from None
        yield


@contextmanager
def given_to_owner(directory: str) -> Iterator[None]:
    """Give the files that root makes in the directory meanwhile to its owner: that is the user of the broker."""
    owner = os.stat(directory)
    wanted = os.geteuid() == 0 and owner.st_uid != 0
    before = _of_root(directory) if wanted else set()
    try:
        yield
    finally:
        for name in _of_root(directory) - before if wanted else ():
            os.chown(os.path.join(directory, name), owner.st_uid, owner.st_gid, follow_symlinks=False)


def _of_root(directory: str) -> set[str]:
    with os.scandir(directory) as entries:
        return {entry.name for entry in entries if entry.stat(follow_symlinks=False).st_uid == 0}


def time_stamp() -> str:
    """Return the text that names the backups of a repair which begins now."""
    # Not only digits, because the directory's name would then look like a partition's.
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


class Repairer:
    """Carry out plans. `say` is called with each act before it is done.

    Every method raises OSError if the disk fails; what was done until then stays, and so does its backup.
    """

    def __init__(self, stamp: str, say: Callable[[str], None]) -> None:
        self._stamp = stamp
        self._say = say

    def carry_out(self, plan: Plan) -> None:
        """Carry out the plan, after backups are made."""
        if not plan.actions:
            return
        backup = os.path.join(plan.partition.path, f".repair-{self._stamp}")
        with given_to_owner(plan.partition.path):
            os.makedirs(backup, exist_ok=True)
        with given_to_owner(plan.partition.path), given_to_owner(backup):
            for action in plan.actions:
                self._say(action.text)
                self._do(action, backup)
        OS.fsync_dir(backup)
        OS.fsync_dir(plan.partition.path)

    def _do(self, action: Action, backup: str) -> None:
        if isinstance(action, CutLog):
            _cut(action, backup)
        elif isinstance(action, ReplaceRanges):
            _replace(action, backup)
        elif isinstance(action, MoveAway):
            os.rename(action.path, os.path.join(backup, os.path.basename(action.path)))
        elif isinstance(action, RebuildIndexes):
            self._keep(action.path, (names.INDEX, names.TIME_INDEX), backup)
            segment = _segments(action.path, upto=action.base)[-1]
            segment.rebuild_indexes(segment.scan_log())
        elif isinstance(action, RebuildTransactions):
            self._keep(action.path, (names.TXN_INDEX,), backup)
            segments = _segments(action.path, upto=action.base)
            rebuild_transaction_index(segments, segments[-1])
        elif isinstance(action, RewriteEpochs):
            if os.path.exists(action.path):
                os.rename(action.path, os.path.join(backup, os.path.basename(action.path)))
            write_epochs(action.path, action.rows)

    @staticmethod
    def _keep(log: str, kinds: tuple[str, ...], backup: str) -> None:
        for kind in kinds:
            path = log.removesuffix(names.LOG) + kind
            if os.path.exists(path):
                os.rename(path, os.path.join(backup, os.path.basename(path)))

    def directory(self, log_dir: str, plans: list[Plan], ends: dict[tuple[str, int], int]) -> list[str]:
        """Return as text what `apply_directory` will do to the checkpoints of a log directory."""
        return [text for text, _ in self._directory(log_dir, plans, ends)]

    def apply_directory(self, log_dir: str, plans: list[Plan], ends: dict[tuple[str, int], int]) -> None:
        """Remove from the checkpoints what no longer exists, and lower them so that a broker checks what was changed.

        `ends` are the log end offsets of the partitions after the repair.
        """
        with given_to_owner(log_dir):
            for text, act in self._directory(log_dir, plans, ends):
                self._say(text)
                act()

    def _directory(
        self, log_dir: str, plans: list[Plan], ends: dict[tuple[str, int], int]
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        changed = {plan.partition.key: plan.recover_from for plan in plans if plan.recover_from is not None}
        for name in names.OFFSET_CHECKPOINTS:
            path = os.path.join(log_dir, name)
            if not os.path.exists(path):
                continue
            try:
                rows, problems = salvage_offsets(path)
            except CorruptCheckpointError:
                yield f"move {path} away: it cannot be read", lambda path=path: self._aside(path)  # type: ignore[misc]
                continue
            right = {key: min(offset, ends.get(key, offset)) for key, offset in rows.items()}
            if name == names.RECOVERY_POINT_CHECKPOINT:
                for key, base in changed.items():
                    if key in right and base is not None:
                        right[key] = min(right[key], base)
            if problems or right != rows:
                yield f"write {path} anew", lambda path=path, right=right: self._rewrite(path, right)  # type: ignore[misc]
        marker = os.path.join(log_dir, names.CLEAN_SHUTDOWN)
        if changed and os.path.exists(marker):
            yield f"remove {marker}, so that a broker checks what was changed", lambda: OS.unlink(marker)

    def _aside(self, path: str) -> None:
        os.rename(path, f"{path}.repair-{self._stamp}")

    def _rewrite(self, path: str, rows: dict[tuple[str, int], int]) -> None:
        os.link(path, f"{path}.repair-{self._stamp}")
        write_offsets(path, rows)


def _segments(log: str, upto: int) -> list[Segment]:
    """Return the segments of the partition to which `log` belongs, up to the one at `upto`."""
    directory = os.path.dirname(log)
    config = LogConfig()
    found = []
    for base in partition_at(directory).bases:
        if base <= upto:
            path = os.path.join(directory, names.segment_name(base, names.LOG))
            found.append(Segment(directory, base, _written(path), config, 0))
    return found


def _written(log: str) -> int:
    """Return the size of a `.log` file without the zeros at its end, which `preallocate` has reserved."""
    with open(log, "rb") as file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        if any(os.pread(fd, HEADER_SIZE, max(size - HEADER_SIZE, 0))):
            return size
        end = 0
        with suppress(RecordsError):
            for position, header in headers(fd, 0, size):
                end = position + header.size
        return end if is_zero(fd, end, size) else size


def _cut(action: CutLog, backup: str) -> None:
    with open(action.path, "r+b") as file:
        _copy_range(file.fileno(), action.position, action.size, _range_name(backup, action.path, action.position))
        file.truncate(action.position)
        os.fsync(file.fileno())


def _replace(action: ReplaceRanges, backup: str) -> None:
    temporary = os.path.join(backup, os.path.basename(action.path) + ".new")
    with open(action.path, "rb") as source, open(temporary, "w+b") as target:
        fd = source.fileno()
        size = os.fstat(fd).st_size
        at = 0
        expected = names.offset_of(os.path.basename(action.path)) or 0
        last: BatchHeader | None = None
        for start, end in action.ranges:
            last, expected = _last_before(fd, at, start, last, expected)
            _copy(fd, at, start, target.fileno())
            _copy_range(fd, start, end, _range_name(backup, action.path, start))
            following = _first_offset(fd, end, size) if end < size else action.following
            target.seek(0, os.SEEK_END)
            for batch in empty_batches(expected, following, last):
                target.write(batch)
            target.flush()
            expected, at = max(expected, following), end
        _copy(fd, at, size, target.fileno())
        os.fsync(target.fileno())
    os.replace(temporary, action.path)


def empty_batches(start: int, end: int, like: BatchHeader | None) -> Iterator[bytes]:
    """Return batches without records, as compaction leaves them, that span the offsets [start, end)."""
    while start < end:
        span = min(end - start, MOST_OFFSETS)
        epoch = like.partition_leader_epoch if like is not None else -1
        header = read_header(encode_batch([], base_offset=start, leader_epoch=epoch))
        timestamp = like.max_timestamp if like is not None else -1
        header = header._replace(last_offset_delta=span - 1, base_timestamp=timestamp, max_timestamp=timestamp)
        yield bytes(pack_header(header, b""))
        start += span


def _last_before(
    fd: int, position: int, end: int, last: BatchHeader | None, expected: int
) -> tuple[BatchHeader | None, int]:
    """Return the last batch in [position, end), whose batches are valid, and the offset after it."""
    while position < end:
        header = read_any_header(os.pread(fd, HEADER_SIZE, position))
        last, expected = header, header.next_offset
        position += header.size
    return last, expected


def _first_offset(fd: int, position: int, size: int) -> int:
    header = read_any_header(os.pread(fd, HEADER_SIZE, position))
    if header.magic == 2:
        return header.base_offset
    # The offset of a wrapper message is that of the last message within.
    return decode_any(os.pread(fd, header.size, position))[0].base_offset


def _range_name(backup: str, log: str, position: int) -> str:
    return os.path.join(backup, f"{os.path.basename(log)}.from-{position}")


def _copy_range(fd: int, start: int, end: int, path: str) -> None:
    with open(path, "wb") as target:
        _copy(fd, start, end, target.fileno())
        os.fsync(target.fileno())


def _copy(source: int, start: int, end: int, target: int) -> None:
    os.lseek(target, 0, os.SEEK_END)
    while start < end:
        data = os.pread(source, min(COPY_BYTES, end - start), start)
        if not data:
            raise OSError(5, "the file ended while it was copied")
        start += len(data)
        while data:
            data = data[os.write(target, data) :]
