"""`kafkalog load`, `load status` and `load compact`: their output and exit codes.

The command line and the spark-submit application (`spark_kafkalog.jobs.load`) share them, and differ in where the
Spark session comes from.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spark_kafkalog.load.arguments import UsageError, client_properties, load_options
from spark_kafkalog.load.load_options import LoadOptions, check_topic, topic_names

if TYPE_CHECKING:
    from spark_kafkalog.fs.interface import Files
    from spark_kafkalog.load.compact import Compacted
    from spark_kafkalog.load.runner import Runner

OK, FAILED, USAGE, LOST_RACE = 0, 1, 2, 3

Context = Callable[[str | None], Any]
"""Returns the SparkContext for a --master."""


# ---------------------------------------------------------------------------------------------- running


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run the command and return the exit code. Print errors in one line on standard error."""
    actions = {None: _load, "status": _status, "compact": _compact}
    try:
        return actions[arguments.action](arguments, context)
    except ModuleNotFoundError as error:
        _complain(f"{error}; {_needs(arguments, error)}")
        return FAILED
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        _complain(_message(error))
        return code


def _needs(arguments: argparse.Namespace, error: ModuleNotFoundError) -> str:
    """Say which extra has a module that is missing."""
    needs_no_spark = arguments.action is not None or arguments.without_spark
    if needs_no_spark and (error.name or "").partition(".")[0] != "pyspark":
        return "a load --without-spark, status and compact need pyarrow: pip install 'kafkalog[arrow]'"
    return "a load needs Spark and pyarrow: pip install 'kafkalog[spark]'; without Spark: --without-spark"


def exit_code(error: Exception) -> int | None:
    """Return the exit code of an expected error; None for a defect."""
    from kafkalog.client.errors import ClientError, ConfigError
    from kafkalog.protocol.errors import KafkaError
    from kafkalog.records.errors import RecordsError
    from spark_kafkalog.data_loss import DataLossError
    from spark_kafkalog.fs.opening import UnsupportedUrlError
    from spark_kafkalog.load.compact_plan import CompactionError, CompactionRunsError
    from spark_kafkalog.load.layout.published import LostRaceError, StateError
    from spark_kafkalog.load.layout.staging import SweptError
    from spark_kafkalog.load.load_plan import ChangingTopicError, LostOffsetsError, PlanError, RecreatedTopicError
    from spark_kafkalog.load.runner import TaskFailedError
    from spark_kafkalog.options.parsing import OptionsError

    if isinstance(error, LostRaceError | CompactionRunsError):
        return LOST_RACE
    if isinstance(error, RecreatedTopicError | LostOffsetsError | ChangingTopicError):
        return FAILED
    if isinstance(error, UsageError | OptionsError | UnsupportedUrlError | ConfigError | PlanError):
        return USAGE
    failures = (
        NoLoadsError,
        KafkaError,
        ClientError,
        RecordsError,
        DataLossError,
        CompactionError,
        StateError,
        SweptError,
    )
    if isinstance(error, (*failures, TaskFailedError, OSError)) and not isinstance(error, BrokenPipeError):
        return FAILED
    return None


def _message(error: Exception) -> str:
    from kafkalog.protocol.errors import KafkaError

    text = error.message if isinstance(error, KafkaError) else str(error)
    if "failOnDataLoss" in text:
        text += " (--no-fail-on-data-loss)"
    return text.replace("kafkaConsumer.pollTimeoutMs", "--poll-timeout").replace("maxBatchBytes", "--max-batch-bytes")


def _complain(message: str) -> None:
    print(f"kafkalog: {message}", file=sys.stderr, flush=True)


def _load(arguments: argparse.Namespace, context: Context) -> int:
    from spark_kafkalog.load import job
    from spark_kafkalog.load.layout.published import LostRaceError
    from spark_kafkalog.load.progress_bar import ProgressBar
    from spark_kafkalog.load.runner import SparkRunner, ThreadRunner

    options = load_options(arguments)
    if arguments.dry_run:
        return _dry_run(options, arguments)
    runner: list[Runner] = []

    def running() -> Runner:
        if not runner:
            threads = arguments.without_spark
            runner.append(ThreadRunner(os.cpu_count() or 1) if threads else SparkRunner(context(arguments.master)))
        return runner[0]

    shown = sys.stderr if sys.stderr.isatty() and not arguments.quiet else None
    loaded: list[job.Loaded] = []
    code = OK
    try:
        for topic in _matching(options) if options.topic_pattern else options.topics:

            def bar(total: int, runner: Runner, topic: str = topic) -> ProgressBar:
                return ProgressBar(topic, total, runner.progress, shown)

            try:
                loaded.append(job.load_topic(options, topic, running, bar))
            except LostRaceError as error:
                # That other loader does not affect the other topics.
                _complain(str(error))
                code = LOST_RACE
                continue
            except (KeyboardInterrupt, SystemExit):
                _complain(
                    f"interrupted while {topic} was loaded. A load appears as a whole or not at all; run the command "
                    "again to load what is left"
                )
                raise
            if not arguments.json:
                print(_loaded_line(loaded[-1]), flush=True)
    finally:
        if arguments.json:
            print(json.dumps({"loads": [_loaded_json(each) for each in loaded]}), flush=True)
    return code


def _matching(options: LoadOptions) -> list[str]:
    """Return the topics that match `--topic-pattern` now."""
    from spark_kafkalog.load.job import matching_topics

    found = matching_topics(options)
    if not found:
        _complain(f"--topic-pattern {options.topic_pattern}: no topic matches")
    return found


def _loaded_line(loaded: Any) -> str:
    topic = loaded.planned.plan.topic
    if loaded.document is None:
        last = loaded.planned.last
        return f"{topic}: nothing new{'' if last is None else f' since load {last.load}'}"
    document = loaded.document
    lost = sum(each.end - each.start for each in document.lost)
    rate = document.rows / max(loaded.seconds, 1e-9)
    return (
        f"{topic}: {document.rows:,} rows in {len(document.files)} files ({document.size / 1e6:,.1f} MB) as "
        f"{loaded.path} in {loaded.seconds:.1f} s, {rate:,.0f} rows/s{f'; {lost:,} offsets are lost' if lost else ''}"
    )


def _loaded_json(loaded: Any) -> dict[str, Any]:
    document = loaded.document
    found = {"topic": loaded.planned.plan.topic, "published": document is not None}
    if document is not None:
        written = json.loads(document.to_json())
        del written["files"]
        found |= written | {"path": loaded.path, "files": len(document.files), "seconds": round(loaded.seconds, 3)}
    return found


def _dry_run(options: LoadOptions, arguments: argparse.Namespace) -> int:
    from spark_kafkalog.load import job

    topics = _matching(options) if options.topic_pattern else options.topics
    planned = [job.plan_topic(options, topic) for topic in topics]
    cores = options.min_splits or os.cpu_count() or 1
    plans = [(each.plan, each.plan.splits(cores, options.most_split_records)) for each in planned]
    if arguments.json:
        document = [
            {
                "topic": plan.topic,
                "load": plan.load,
                "offsets": plan.size,
                "splits": [split._asdict() for split in splits],
                "lost": [each.__dict__ for each in plan.lost],
            }
            for plan, splits in plans
        ]
        print(json.dumps({"plans": document}))
        return OK
    for plan, splits in plans:
        state = "nothing new" if plan.is_empty else f"load {plan.load}, {plan.size:,} offsets in {len(splits)} splits"
        print(f"{plan.topic}: {state}")
        rows = []
        for number, (start, end) in sorted(plan.positions.items()):
            mine = sum(split.partition == number for split in splits)
            rows.append([str(number), f"{start}", f"{end}", f"{end - start:,}", str(mine)])
        print(table(["partition", "start", "end", "offsets", "splits"], rows))
        for lost in plan.lost:
            print(f"lost: partition {lost.partition} [{lost.start}, {lost.end}): {lost.why}")
    return OK


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Format rows as right-aligned columns."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [heading, *rows]
    )


# ---------------------------------------------------------------------------------------------- status, compact


class NoLoadsError(RuntimeError):
    """A topic that was named has no loads."""


def _topics_of(arguments: argparse.Namespace) -> tuple[Any, str, list[str]]:
    """Return the file system of --to, its path, and the given topics, or all found there: perhaps none.

    Raises:
        UsageError: --to is missing.
        NoLoadsError: There are no loads of a topic that was named.
    """
    from spark_kafkalog.fs.opening import open_files
    from spark_kafkalog.load.job import topic_path
    from spark_kafkalog.load.layout.published import numbers

    if not arguments.to:
        raise UsageError("--to is missing")
    files, root = open_files(arguments.to)
    asked = list(topic_names(arguments.topic))
    for topic in asked:
        check_topic(topic)
        if not numbers(files, topic_path(root, topic)):
            raise NoLoadsError(f"there are no loads of {topic} in {arguments.to}")
    found = asked or [
        each.name for each in files.list(root) if each.is_directory and numbers(files, topic_path(root, each.name))
    ]
    if not found:
        _complain(f"there are no loads in {arguments.to}")
    return files, root, found


def _status(arguments: argparse.Namespace, context: Context) -> int:
    from spark_kafkalog.load.status import Ends, describe, ends

    files, root, topics = _topics_of(arguments)
    now: Mapping[str, Ends] = {}
    if arguments.bootstrap_server:
        now = ends(topics, arguments.bootstrap_server, client_properties(arguments))
    described = [describe(files, root, topic, now.get(topic)) for topic in topics]
    if arguments.json:
        print(json.dumps({"topics": [each.to_dict() for each in described]}))
    else:
        for each in described:
            print(each.text(table))
    return OK


def _compact(arguments: argparse.Namespace, context: Context) -> int:
    from spark_kafkalog.load.compact_plan import CompactionError, CompactionRunsError, NotParquetError
    from spark_kafkalog.load.job import topic_path
    from spark_kafkalog.load.layout.published import StateError
    from spark_kafkalog.load.layout.staging import SweptError
    from spark_kafkalog.load.runner import SparkRunner, TaskFailedError, ThreadRunner

    files, root, topics = _topics_of(arguments)

    def runner() -> Runner:
        # Merging needs no cluster; one is used where it was asked for.
        return SparkRunner(context(arguments.master)) if arguments.master else ThreadRunner(os.cpu_count() or 1)

    given = {
        "target_bytes": arguments.target_file_size,
        "compression_level": arguments.compression_level,
        "stale_after_s": arguments.stale_after,
        "loads": _loads(arguments.loads),
    }
    results = []
    codes = {OK}
    for topic in topics:
        try:
            done = _compacted(files, topic_path(root, topic), runner, given)
        except (CompactionError, CompactionRunsError, StateError, SweptError, TaskFailedError) as error:
            if len(topics) == 1:
                raise
            # If one topic cannot be compacted, the others still are.
            _complain(str(error))
            # A topic that cannot be compacted is no failure if the user did not name it.
            if arguments.topic or not isinstance(error, NotParquetError):
                codes.add(exit_code(error) or FAILED)
            continue
        results.append({"topic": topic, **done.__dict__})
        if not arguments.json:
            what = (
                f"{done.files_before} files became {done.files_after} ({done.rows:,} rows, {done.bytes / 1e6:,.1f} MB)"
            )
            print(f"{topic}: {what if done.files_before else 'nothing to merge'}", flush=True)
    if arguments.json:
        print(json.dumps({"compacted": results}))
    # A lost race is no failure, and hides none.
    return FAILED if FAILED in codes else max(codes)


def _compacted(files: Files, topic_path: str, runner: Callable[[], Runner], given: Mapping[str, Any]) -> Compacted:
    """Compact a topic. Raise the errors of `compact`, but a CompactionError in place of an OSError."""
    from spark_kafkalog.load.compact import compact
    from spark_kafkalog.load.compact_plan import CompactionError

    try:
        return compact(files, topic_path, runner, **{name: each for name, each in given.items() if each is not None})
    except OSError as error:
        topic = topic_path.rpartition("/")[2]
        raise CompactionError(
            f"{topic} cannot be compacted: {error}. Mend that and run it again: it finishes what this run began"
        ) from error


def _loads(text: str | None) -> range | None:
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not dash or not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
        raise UsageError(f"--loads {text}: expected the first and the last load, such as 3-17")
    return range(int(first), int(last) + 1)
