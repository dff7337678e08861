"""`kafkalog log stats`: what is in partitions, in numbers."""

from __future__ import annotations

import argparse
import datetime
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.cli.log.common import (
    PATHS,
    Progress,
    add_command,
    add_progress,
    add_threads,
    find,
    reporting,
    size_text,
)
from kafkalog.cli.shared.client_options import natural, print_json

if TYPE_CHECKING:
    from broker.log.tools.stats import Stats
    from broker.log.tools.targets import PartitionDir

EXAMPLES = """\
examples:
  kafkalog log stats data
  kafkalog log stats --segments data/words-0
  kafkalog log stats --deep --top-keys 10 data/words-0 --json

By default batch headers alone are read. --deep decompresses every record: sizes of keys and values, compression ratio.
density is the number of records by that of offsets: it is below 1 where compaction has removed records, and where
transactions have markers. Exit code 1: a segment could not be read to its end (`kafkalog log verify` says more).
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `stats`."""
    parser = add_command(
        commands,
        "stats",
        "count records, bytes and keys of partitions",
        "Count the content of log directories.",
        EXAMPLES,
    )
    parser.add_argument("path", nargs="+", metavar="PATH", help=PATHS.replace("a file of one, ", ""))
    parser.add_argument("--segments", action="store_true", help="show each segment, not only the partition")
    parser.add_argument("--deep", action="store_true", help="read every record")
    parser.add_argument(
        "--top-keys", type=natural, default=0, metavar="N", help="the keys with most records; slow, implies --deep"
    )
    add_threads(parser)
    parser.add_argument("--json", action="store_true", help="one object a line for each partition or segment")
    add_progress(parser)
    parser.set_defaults(run=run_stats)


@reporting
def run_stats(arguments: argparse.Namespace) -> int:
    """Count and print; 1 where something could not be read."""
    from broker.log.tools import verify
    from broker.log.tools.stats import Stats, segment_stats
    from kafkalog.records import checking

    arguments.deep |= bool(arguments.top_keys)
    found = find(arguments.path)
    size = verify.total_bytes(found)
    if size > verify.SMALL_BYTES:
        checking.load()
    failed = False
    with (
        Progress(size, arguments.json) as progress,
        ThreadPoolExecutor(arguments.threads or os.cpu_count() or 1) as pool,
    ):

        def count(partition: PartitionDir, base: int) -> Stats:
            try:
                return segment_stats(
                    partition, base, deep=arguments.deep, count_keys=bool(arguments.top_keys), progress=progress
                )
            except FileNotFoundError:
                # Retention took it meanwhile.
                return Stats()

        for partition in found.partitions:
            total = Stats()
            counted = pool.map(partial(count, partition), partition.bases)
            for base, stats in zip(partition.bases, counted, strict=True):
                if arguments.segments and stats.segments:
                    progress.clear()
                    _show(arguments, partition.path, base, stats)
                total.add(stats)
            failed |= bool(total.unreadable)
            progress.clear()
            _show(arguments, partition.path, None, total)
    return int(failed)


def _show(arguments: argparse.Namespace, path: str, base: int | None, stats: Stats) -> None:
    row = stats.row(deep=arguments.deep, top_keys=arguments.top_keys)
    if arguments.json:
        print_json({"path": path, **({} if base is None else {"segment": base}), **row})
        return
    print(f"{path}" if base is None else f"{path} segment {base}")
    for name, value in _lines(row):
        print(f"  {name:<22}{value}")


def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the object that JSON shows, for people."""
    lines = []
    for name, value in row.items():
        label = name.replace("_", " ")
        if name == "unreadable":
            lines += [(label, each) for each in value]
        elif name == "top_keys":
            lines += [("top key", f"{each['records']:>12,}  {each['key']}") for each in value]
        elif isinstance(value, dict):
            lines.append((label, ", ".join(f"{key} {_value(key, each)}" for key, each in value.items()) or "none"))
        else:
            lines.append((label, _value(name, value)))
    return lines


def _value(name: str, value: Any) -> str:
    if name.endswith("timestamp"):
        return "none" if value < 0 else f"{_time(value)} ({value})"
    if name.endswith("bytes"):
        return f"{value:,} ({size_text(value)})"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _time(timestamp: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return "beyond any calendar"
