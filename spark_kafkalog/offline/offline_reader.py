"""`spark.read.format("kafkalog").load(DIR)`: the batch reader over log directories.

The driver lists directories, finds where partitions begin and end, and cuts segments into tasks. Executors open the
files by the same paths, so all of them must be able to reach these paths.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkalog.client.types import TopicPartition
from kafkalog.storage import names as file_names
from kafkalog.storage.checkpoints import salvage_offsets
from kafkalog.storage.topics import INTERNAL_TOPICS, NEWER_INTERNAL_TOPICS
from spark_kafkalog import offsets
from spark_kafkalog.brief import brief, brief_rows
from spark_kafkalog.columns import columns_of
from spark_kafkalog.data_loss import Condition, reporter
from spark_kafkalog.fs.globs import expand
from spark_kafkalog.fs.interface import Entry, FileSystem
from spark_kafkalog.fs.opening import file_system
from spark_kafkalog.offline import replica_directory, segment_pieces
from spark_kafkalog.offline.offline_options import OfflineOptions
from spark_kafkalog.offline.piece_reader import OfflinePartition, read_pieces
from spark_kafkalog.offline.replica_directory import PartitionLog
from spark_kafkalog.offline.segment_pieces import SegmentPiece
from spark_kafkalog.options.java_patterns import compile_java
from spark_kafkalog.options.limits import EARLIEST, LATEST
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.subscription import Assign, Strategy, Subscribe
from spark_kafkalog.plan.ranges import batch_ranges
from spark_kafkalog.plan.start_and_end import resolve

logger = logging.getLogger(__name__)

MAX_DEPTH = 4
"""The number of levels below a given directory that are searched for partitions."""
_BROKER_FILES = (file_names.META_PROPERTIES, file_names.LOG_START_CHECKPOINT)
"""Files that lie beside partitions, and never in one."""
_SHOWN = 3
"""The most wrong rows of a checkpoint that the log message quotes."""
_INTERNAL = INTERNAL_TOPICS | NEWER_INTERNAL_TOPICS
"""Kafka's own topics, which are read only if they are named."""


class OfflineBatchReader(DataSourceReader):
    """Reads a batch query over log directories. Its offsets are fixed when it is planned."""

    def __init__(self, options: OfflineOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of(schema)
        self._starting, self._ending = options.source.batch_limits()

    @brief
    def partitions(self) -> Sequence[InputPartition]:
        logs = Logs.find(self._options)
        starts = resolve(self._starting, logs.assigned, logs.lookup, starting=True)
        ends = resolve(self._ending, logs.assigned, logs.lookup, starting=False)
        ranges = logs.within(batch_ranges(starts, ends))
        return [OfflinePartition(pieces) for pieces in tasks(logs, ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, OfflinePartition):
            # PySpark makes such a partition of an empty list.
            return iter(())
        return brief_rows(read_pieces(partition.pieces, self._options, self._columns))


# ---------------------------------------------------------------------------------------------- which logs


class Logs:
    """The logs of the chosen partitions, one replica of each."""

    def __init__(self, options: OfflineOptions, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self._logs = logs
        self._report = reporter(options.source.fail_on_data_loss)
        self._committed_only = bool(options.source.client.isolation_level)
        self._ends: dict[TopicPartition, int] = {}
        self.assigned = frozenset(logs)

    @classmethod
    def find(cls, options: OfflineOptions) -> Logs:
        """Find the logs that the options name.

        Raises:
            OptionsError: A path or a named topic does not exist.
        """
        directories = find_directories(options.paths)
        wanted = _wanted(directories, options)
        starts: dict[str, dict[TopicPartition, int]] = {}
        logs: dict[TopicPartition, PartitionLog] = {}
        for tp in sorted(wanted):
            replicas = {}
            for directory in directories[tp]:
                parent = directory.rpartition("/")[0]
                fs = file_system(directory)
                if parent not in starts:
                    starts[parent] = _log_starts(fs, parent)
                replicas[directory] = replica_directory.inspect(fs, tp, directory, starts[parent].get(tp, 0))
            logs[tp] = replicas[_chosen(tp, replicas.values())]
        return cls(options, logs)

    def __getitem__(self, tp: TopicPartition) -> PartitionLog:
        return self._logs[tp]

    def end(self, tp: TopicPartition) -> int:
        """Return the offset behind the last record that the isolation level allows to read."""
        if not self._committed_only:
            return self._logs[tp].end
        if tp not in self._ends:
            log = self._logs[tp]
            self._ends[tp] = replica_directory.last_stable_offset(file_system(log.directory), log)
        return self._ends[tp]

    def lookup(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets of timestamps, as `offsets.Lookup` describes."""
        found = {}
        for tp, time in times.items():
            log = self._logs.get(tp)
            if log is None:
                continue
            if time == EARLIEST:
                found[tp] = log.start
            elif time == LATEST:
                found[tp] = self.end(tp)
            else:
                offset = replica_directory.offset_at(file_system(log.directory), log, time)
                found[tp] = LATEST if offset is None or offset >= self.end(tp) else offset
        return found

    def within(self, ranges: Sequence[offsets.OffsetRange]) -> list[offsets.OffsetRange]:
        """Cut ranges to the offsets that the logs hold, and report the others as lost."""
        held = []
        for tp, start, end in ranges:
            begin, behind = self._logs[tp].start, self.end(tp)
            low, high = min(max(start, begin), end), max(min(end, behind), start)
            lost = max(low - start, 0) + max(end - max(high, low), 0)
            if lost:
                self._report(
                    Condition.COULD_NOT_READ,
                    f"Could not read {lost} of the offsets [{start}, {end}) of {tp}: {self._logs[tp].directory} holds "
                    f"offsets [{begin}, {behind}).",
                )
            if low < high:
                held.append(offsets.OffsetRange(tp, low, high))
        return held


def find_directories(paths: Sequence[str]) -> dict[TopicPartition, list[str]]:
    """Find the directories of partitions at or below paths.

    Raises:
        OptionsError: There is none at or below a path.
    """
    found: dict[TopicPartition, list[str]] = {}
    for path in paths:
        entries = expand(path)
        if not entries:
            raise OptionsError(f"path: {path} does not exist")
        directories = [each for entry in entries for each in _partition_directories(file_system(path), entry, 0)]
        if not directories:
            raise OptionsError(
                f"path: {path} holds no Kafka log; expected a directory such as topic-0, or a broker's log.dirs"
            )
        for tp, directory in directories:
            known = found.setdefault(tp, [])
            if directory not in known:
                known.append(directory)
    return found


def _partition_directories(
    fs: FileSystem, entry: Entry, depth: int, in_log_dir: bool = False
) -> Iterator[tuple[TopicPartition, str]]:
    """Find partitions below an entry. `in_log_dir`: the parent is a broker's directory, so names are reliable."""
    if not entry.is_directory:
        return
    key = file_names.parse_served_dir(entry.name)
    tp = None if key is None else TopicPartition(*key)
    if tp is not None and in_log_dir:
        yield tp, entry.path
        return
    children = fs.entries(entry.path)
    if tp is not None and (_is_log(children) if depth == 0 else not _holds_logs(children)):
        yield tp, entry.path
    elif depth == 0 or (depth < MAX_DEPTH and not entry.name.startswith(".")):
        is_log_dir = any(child.name in _BROKER_FILES for child in children)
        for child in children:
            if child.is_directory and not child.name.endswith(file_names.OUT_OF_SERVICE):
                yield from _partition_directories(fs, child, depth + 1, is_log_dir)


def _is_log(entries: Sequence[Entry]) -> bool:
    """Return whether a directory with a partition's name contains files like a partition's."""
    return any(not entry.is_directory for entry in entries) and not _holds_logs(entries)


def _holds_logs(entries: Sequence[Entry]) -> bool:
    """Return whether a directory contains partitions: a broker's directory may have a name like `data-1`."""
    return any(entry.name in _BROKER_FILES for entry in entries) or (
        any(entry.is_directory for entry in entries)
        and not any(entry.name.endswith(file_names.LOG) for entry in entries)
    )


def _wanted(found: Mapping[TopicPartition, list[str]], options: OfflineOptions) -> frozenset[TopicPartition]:
    strategy: Strategy = options.source.strategy
    where = ", ".join(options.paths)
    if isinstance(strategy, Assign):
        if missing := strategy.partitions - found.keys():
            names = ", ".join(str(tp) for tp in sorted(missing))
            raise OptionsError(f"assign: {names} not found below {where}")
        return strategy.partitions
    if isinstance(strategy, Subscribe):
        topics = {tp.topic for tp in found}
        if unknown := [topic for topic in strategy.topics if topic not in topics]:
            raise OptionsError(f"subscribe: no partition of {', '.join(unknown)} found below {where}")
        return frozenset(tp for tp in found if tp.topic in strategy.topics)
    matches = compile_java(strategy.pattern)
    return frozenset(tp for tp in found if tp.topic not in _INTERNAL and matches(tp.topic))


def _log_starts(fs: FileSystem, parent: str) -> dict[TopicPartition, int]:
    path = f"{parent}/{file_names.LOG_START_CHECKPOINT}"
    try:
        offsets, problems = salvage_offsets(replica_directory.read_small(fs, path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logger.warning("%s is not used: %s", path, error)
        return {}
    if problems:
        logger.warning("%s: %s; only its other rows are used", path, "; ".join(problems[:_SHOWN]))
    return {TopicPartition(*key): offset for key, offset in offsets.items()}


def _chosen(tp: TopicPartition, replicas: Any) -> str:
    found = [segment_pieces.Replica(log.directory, log.epoch, log.end) for log in replicas]
    best = segment_pieces.choose(found)
    if len(found) > 1:
        others = "; ".join(f"{each.directory} (leader epoch {each.epoch}, end {each.end})" for each in found)
        logger.warning("%s is in %d directories: %s. Only %s is read.", tp, len(found), others, best.directory)
    return best.directory


# ---------------------------------------------------------------------------------------------- tasks


def tasks(logs: Logs, ranges: Sequence[offsets.OffsetRange], options: OfflineOptions) -> list[list[SegmentPiece]]:
    """Pack the pieces of all ranges into tasks of `maxBytesPerPartition`, or less if `minPartitions` needs more."""
    wanted = [(segment, start, end) for tp, start, end in ranges for segment in logs[tp].segments]
    total = segment_pieces.total_size(wanted)
    most_bytes = segment_pieces.task_bytes(total, options.max_bytes_per_partition, options.source.min_partitions)
    most_records = options.source.max_records_per_partition
    packed = segment_pieces.pack(_all_pieces(logs, ranges, most_bytes, most_records), most_bytes, most_records)
    least = options.source.min_partitions or 0
    offsets_wanted = sum(each.size for each in ranges)
    if len(packed) < least and offsets_wanted > len(packed):
        # Large batches leave few places to cut at. So cut by offsets, although tasks then share batches.
        share = max(offsets_wanted // least, 1)
        most_records = share if most_records is None else min(share, most_records)
        packed = segment_pieces.pack(_all_pieces(logs, ranges, most_bytes, most_records), most_bytes, most_records)
    return packed


def _all_pieces(
    logs: Logs, ranges: Sequence[offsets.OffsetRange], most_bytes: int, most_records: int | None
) -> list[SegmentPiece]:
    pieces: list[SegmentPiece] = []
    for tp, start, end in ranges:
        fs = file_system(logs[tp].directory)
        for segment in logs[tp].segments:
            pieces += _pieces(fs, tp, segment, start, end, most_bytes, most_records)
    return pieces


def _pieces(
    fs: FileSystem,
    tp: TopicPartition,
    segment: segment_pieces.Segment,
    start: int,
    end: int,
    most_bytes: int,
    most_records: int | None,
) -> list[SegmentPiece]:
    low, high = max(start, segment.base), min(end, segment.end)
    if low >= high or segment.size == 0:
        return []
    is_whole = (low, high) == (segment.base, segment.end)
    if is_whole and segment.size <= most_bytes and (most_records is None or high - low <= most_records):
        return [SegmentPiece(*tp, segment, low, high, 0, segment.size, None)]
    entries = replica_directory.load_index(fs, segment)
    try:
        with replica_directory.opened(fs, segment) as batches:
            check = replica_directory.checker(batches, segment.base)
            return segment_pieces.pieces_of(*tp, segment, low, high, entries, check, most_bytes, most_records)
    except FileNotFoundError:
        # Retention has deleted it meanwhile; the task that finds it gone reports it.
        return [SegmentPiece(*tp, segment, low, high, 0, segment.size, None)]
