"""Loads topics: plan, read and write, publish. Each topic is a unit of its own.

Topics are loaded and published one after another: the load of one topic is all or nothing, independent of the others.
The newest published document alone tells where to continue, and nothing is written outside of staging before the
rename.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from uuid import UUID

import kafkalog
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import InvalidResponseError
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from spark_kafkalog import faults
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.fs.opening import open_files
from spark_kafkalog.load import compact
from spark_kafkalog.load.layout import published
from spark_kafkalog.load.layout.file_names import OFFSETS_FILE
from spark_kafkalog.load.layout.offsets_document import Lost, Offsets, PartitionOffsets
from spark_kafkalog.load.layout.staging import Staging, SweptError, sweep
from spark_kafkalog.load.load_options import LoadOptions, check_partitions, check_topic
from spark_kafkalog.load.load_plan import (
    ChangingTopicError,
    Plan,
    PlanError,
    RecreatedTopicError,
    Seen,
    Split,
    Wanted,
    plan_load,
)
from spark_kafkalog.load.runner import Runner
from spark_kafkalog.load.write import SplitTask, WrittenFile, WrittenSplit, load_split
from spark_kafkalog.offsets import Position, topic_mark
from spark_kafkalog.options.limits import EARLIEST, LATEST, AtOffsets, Limit
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.start_and_end import resolve

_MOVERS = 8
"""Concurrent renames: on HDFS each waits for the NameNode's disk."""


@dataclass(frozen=True)
class Planned:
    """The plan of a topic's load, and the objects that it was made with."""

    plan: Plan
    last: Offsets | None
    source: SourceOptions
    topic_id: UUID


@dataclass(frozen=True)
class Loaded:
    """The result of a topic's load; `document` and `path` are None if there was nothing new."""

    planned: Planned
    document: Offsets | None
    path: str | None
    seconds: float


def topic_path(root: str, topic: str) -> str:
    """Return the directory of a topic's loads."""
    return f"{root.rstrip('/')}/{topic}"


def matching_topics(options: LoadOptions) -> list[str]:
    """Return the names of the topics that match `topic_pattern`, in order.

    Raises:
        OptionsError: An option is wrong.
        KafkaError, ClientError: A request to the brokers has failed.
        InvalidResponseError: The brokers name a topic that no topic can be called. Names become parts of paths.
    """
    discovery = Discovery(options.matching())
    try:
        found = sorted({tp.topic for tp in discovery.assigned().partitions})
    finally:
        discovery.close()
    for name in found:
        try:
            check_topic(name)
        except OptionsError:
            raise InvalidResponseError(
                f"the brokers name a topic {name!r}, which no topic can be called, so nothing is loaded. Is the "
                "address that of a Kafka cluster that you trust?"
            ) from None
    return found


def plan_topic(options: LoadOptions, topic: str) -> Planned:
    """Plan the next load of a topic, without changing anything.

    Raises:
        PlanError: The load must not run.
        OptionsError: An option is wrong.
        KafkaError, ClientError: A request to the brokers has failed, such as with UnknownTopicOrPartitionError or
            ClientTimeoutError.
        OSError: The file system has failed.
        StateError: A published load cannot be read.
    """
    files, root = open_files(options.to)
    source = options.source(topic)
    last = published.newest(files, topic_path(root, topic))
    if last is not None and last.format != options.format:
        raise PlanError(
            f"the loads of {topic} in {options.to} are {last.format}, not {options.format}: go on with --format "
            f"{last.format}, or name another directory"
        )
    discovery = Discovery(source)
    try:
        topic_id = _topic_id(source, topic)
        partitions = discovery.assigned().partitions
        earliest = discovery.lookup(dict.fromkeys(partitions, EARLIEST))
        ends = {EARLIEST: earliest, LATEST: discovery.lookup(dict.fromkeys(partitions, LATEST))}

        def resolved(limit: Limit, starting: bool) -> dict[int, int]:
            return _resolved(limit, topic, partitions, discovery, ends, starting=starting)

        # Look up starts before the end, and limits of the end after it: the topic may grow between the requests.
        first_starts = resolved(options.first, True)
        starts = None if options.start is None else resolved(options.start, True)
        known = {TopicPartition(topic, number): end for number, end in (last.ends if last else {}).items()}
        ends[LATEST] = discovery.latest(Position(known, {})).offsets
        until = resolved(options.until, False)
        beyond = [tp for tp, end in known.items() if end > ends[LATEST].get(tp, end)]
        committed = source.client.isolation_level == READ_COMMITTED
        high_watermarks = discovery.high_watermarks(beyond) if committed else {}
    finally:
        discovery.close()
    seen = Seen(topic_mark(topic_id) or "", _by_number(earliest), _by_number(ends[LATEST]), _by_number(high_watermarks))
    if not seen.earliest.keys() == seen.latest.keys() == until.keys():
        raise ChangingTopicError(f"the partitions of {topic} changed while the load was planned; run it again")
    wanted = Wanted(
        first_starts=first_starts,
        until=until,
        starts=starts,
        fail_on_data_loss=options.fail_on_data_loss,
        restart_recreated=options.restart_recreated,
        at_latest=options.starts_at_latest(topic),
    )
    return Planned(plan_load(topic, last, seen, wanted), last, source, topic_id)


def _resolved(
    limit: Limit,
    topic: str,
    partitions: Collection[TopicPartition],
    discovery: Discovery,
    ends: Mapping[int, Mapping[TopicPartition, int]],
    *,
    starting: bool,
) -> dict[int, int]:
    """Return the offsets of a limit, by partition. `ends` has the known offsets of EARLIEST and LATEST."""

    def lookup(asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        known = {tp: ends[time][tp] for tp, time in asked.items() if time in ends and tp in ends[time]}
        return known | dict(discovery.lookup({tp: time for tp, time in asked.items() if time not in ends}))

    if isinstance(limit, AtOffsets):
        limit = AtOffsets({tp: offset for tp, offset in limit.offsets.items() if tp.topic == topic})
        check_partitions(limit.offsets, partitions, starting=starting)
    found = resolve(limit, partitions, lookup, starting=starting)
    # -1: a time that no record reaches, or none did when the end was looked up.
    found = {tp: ends[LATEST].get(tp, -1) if offset < 0 else offset for tp, offset in found.items()}
    if not starting and not isinstance(limit, AtOffsets):
        found = {tp: min(offset, ends[LATEST].get(tp, offset)) for tp, offset in found.items()}
    return _by_number(found)


def load_topic(
    options: LoadOptions,
    topic: str,
    runner: Callable[[], Runner],
    shown: Callable[[int, Runner], AbstractContextManager[object]] = lambda total, runner: nullcontext(),
) -> Loaded:
    """Load and publish the new records of a topic. `runner` is called only if there are any.

    `shown` returns a context that shows progress; its arguments are the total of offsets, and the runner that counts.

    After an error nothing is published. The errors of `plan_topic` are raised, too.

    Raises:
        LostRaceError: Another run has published this run's load first.
        SweptError: Another run considered this one dead and swept its staging directory.
        TaskFailedError: A task failed on an executor.
    """
    began = time.monotonic()
    planned = plan_topic(options, topic)
    faults.point("planned")
    files, root = open_files(options.to)
    path = topic_path(root, topic)
    if planned.plan.is_empty and not compact.is_under_way(files, path):
        return Loaded(planned, None, None, time.monotonic() - began)
    with Staging(files, path, options.heartbeat_s) as staging:
        sweep(files, staging, options.stale_after_s)
        # Readers fail until it is finished, so finish it even if there is nothing new.
        compact.finish_abandoned(files, path, staging, options.stale_after_s)
        if planned.plan.is_empty:
            return Loaded(planned, None, None, time.monotonic() - began)
        running = runner()
        splits = planned.plan.splits(options.min_splits or running.parallelism, options.most_split_records)
        tasks = [_task(options, planned, files, staging, split) for split in splits]
        with shown(planned.plan.size, running):
            written = running.run(load_split, tasks)
        faults.point("splits-done")
        document = _document(planned.plan, staging.run_id, options.format, written)
        prepared = _prepare(files, staging, document, written)
        _check_unchanged(planned)
        staging.check()
        try:
            target = published.publish(files, path, prepared, document)
        except FileNotFoundError:
            staging.check()
            raise
        return Loaded(planned, document, target, time.monotonic() - began)


def _task(options: LoadOptions, planned: Planned, files: Files, staging: Staging, split: Split) -> SplitTask:
    return SplitTask(
        split=split,
        options=planned.source.logged_in(),
        files=files,
        directory=f"{staging.path}/attempts",
        format=options.format,
        compression_level=options.compression_level,
        most_file_bytes=options.most_file_bytes,
        topic_mark=topic_mark(planned.topic_id),
    )


def _prepare(files: Files, staging: Staging, document: Offsets, written: Sequence[WrittenSplit]) -> str:
    """Move the files that the document names to the directory that will be published."""
    prepared = f"{staging.path}/load"
    found: list[WrittenFile] = [each for split in written for each in split.files]
    for directory in sorted({each.file.path.rpartition("/")[0] for each in found}):
        files.make_directories(f"{prepared}/{directory}")
    if not found:
        files.make_directories(prepared)

    def move(each: WrittenFile) -> None:
        try:
            files.rename(each.path, f"{prepared}/{each.file.path}")
        except FileNotFoundError:
            staging.check()
            raise SweptError(f"{each.path} is gone: its run was swept, or something else deleted it") from None
        faults.point("file-moved")

    with ThreadPoolExecutor(_MOVERS) as movers:
        for _ in movers.map(move, found):
            pass
    faults.point("files-moved")
    files.write(f"{prepared}/{OFFSETS_FILE}", document.to_json().encode())
    faults.point("document-written")
    files.sync_tree(prepared)
    faults.point("synced")
    return prepared


def _document(plan: Plan, run_id: str, format_: str, written: Sequence[WrittenSplit]) -> Offsets:
    """Return the document of what was read.

    Raises:
        AssertionError: Files and plan disagree, which is a defect.
    """
    found = tuple(sorted((each.file for split in written for each in split.files), key=lambda file: file.path))
    if len({file.path for file in found}) != len(found):
        raise AssertionError("two files of a load have one name")
    rows = dict.fromkeys(plan.positions, 0)
    for file in found:
        rows[file.partition] += file.rows
    lost: list[Lost] = [*plan.lost, *(each for split in written for each in split.lost)]
    return Offsets(
        topic=plan.topic,
        topic_id=plan.topic_id,
        load=plan.load,
        previous_load=plan.previous,
        run_id=run_id,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        format=format_,
        partitions={
            number: PartitionOffsets(start, end, rows[number]) for number, (start, end) in plan.positions.items()
        },
        files=found,
        lost=tuple(sorted(lost, key=lambda each: (each.partition, each.start))),
        restarted=plan.restarted,
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {"kafkalog": kafkalog.__version__}
    for name in ("pyarrow", "pyspark"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _check_unchanged(planned: Planned) -> None:
    """Check that the topic was not deleted and created again since it was planned."""
    topic = planned.plan.topic
    now = _topic_id(planned.source, topic)
    if now != planned.topic_id:
        raise RecreatedTopicError(
            f"topic {topic} was deleted and created again while it was loaded; nothing was published. Run the load "
            "again"
        )


def _topic_id(source: SourceOptions, topic: str) -> UUID:
    with Cluster(source.logged_in().client) as cluster:
        return cluster.topic(topic).topic_id


def _by_number(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in offsets.items()}
