"""Makes and parses the names of directories and files of loads. Pure.

    <to>/<topic>/load=0000000007/_offsets.json
    <to>/<topic>/load=0000000007/date=2026-11-21/hour=18/<topic>+<partition>+<start>+<end>.parquet
    <to>/_staging/<topic>/<run id>/…

What runs prepare or leave behind lies beside the topics. So every pattern below a topic's directory finds published
files only.

`load`, `date` and `hour` are partition columns for Spark, Hive, pyarrow and DuckDB, which ignore names that begin
with `_`. A file's name has the range of its offsets: its first one, and the one behind its last. The file need not
hold all of them, because it has the records of one hour only, and timestamps may be out of order.

Spark, Hive and pyarrow skip files whose names begin with `_` or `.`, and so may the names of topics. Files of such
topics have a `+` before their names. Earlier versions left it out. Of a long name of a topic, files have the beginning
only, because a file's name can have 255 bytes at most, with what is added while files are exchanged.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

OFFSETS_FILE = "_offsets.json"
STAGING = "_staging"
REPLACED = ".replaced"
"""Added to the names of files that a compaction has moved away; not the suffix of a data file."""
COMPACTING = "_compacting"
SIGN = "compaction-under-way"
"""The name, without its suffix, of the file that has readers fail while a compaction exchanges files."""
NO_HOUR = "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"
"""The directory of records without a usable timestamp: a name that Hive, Spark, pyarrow and DuckDB read as null."""
HOUR_US = 3_600_000_000
LAST_HOUR = 70_389_527
"""The last hour of the year 9999, beyond which neither Python nor SQL has dates."""

_LOAD = re.compile(r"load=(\d{10,})")
LONGEST_TOPIC = 160
"""The most characters of a topic's name in the names of its files."""
_SHOWN = "+"
"""Begins the names of files that would be hidden without it."""
_FILE = re.compile(r"\+?(?P<topic>[a-zA-Z0-9._-]{1,249})\+(?P<partition>\d+)\+(?P<start>\d{20})\+(?P<end>\d{20})\.\w+")


class FileName(NamedTuple):
    """The parts of a data file's name: offsets [start, end) of a partition, not all of which need be in the file."""

    topic: str
    """The first LONGEST_TOPIC characters of the topic's name."""
    partition: int
    start: int
    end: int


def staging_path(topic_path: str) -> str:
    """Return the directory in which the runs of a topic prepare what they publish."""
    root, _, topic = topic_path.rpartition("/")
    return f"{root}/{STAGING}/{topic}"


def old_staging_path(topic_path: str) -> str:
    """Return the directory in which earlier versions did so."""
    return f"{topic_path}/{STAGING}"


def load_name(number: int) -> str:
    """Return the name of a load's directory."""
    return f"load={number:010}"


def load_number(name: str) -> int | None:
    """Return the number in the name of a load's directory; None for any other name."""
    match = _LOAD.fullmatch(name)
    if match is None or load_name(int(match[1])) != name:
        return None
    return int(match[1])


def hour_path(hour: int | None) -> str:
    """Return `date=…/hour=…` of an hour from 1970 (UTC) to LAST_HOUR; for None, that of records without an hour."""
    return NO_HOUR if hour is None else f"{datetime.fromtimestamp(hour * 3600, UTC):date=%Y-%m-%d/hour=%H}"


def is_hidden(name: str) -> bool:
    """Return whether Spark, Hive and pyarrow skip files of this name."""
    return name.startswith(("_", "."))


def file_name(topic: str, partition: int, start: int, end: int, suffix: str) -> str:
    """Return a data file's name; `suffix` has no dot."""
    shown = _SHOWN if is_hidden(topic) else ""
    return f"{shown}{topic[:LONGEST_TOPIC]}+{partition}+{start:020}+{end:020}.{suffix}"


def parse_file_name(name: str) -> FileName:
    """Parse a data file's name.

    Raises:
        ValueError: The name is any other.
    """
    match = _FILE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the name of a load's file (topic+partition+start+end.suffix)")
    return FileName(match["topic"], int(match["partition"]), int(match["start"]), int(match["end"]))
