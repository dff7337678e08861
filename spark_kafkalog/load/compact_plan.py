"""Plans a compaction: the files to merge, and the errors of compactions.

Files of one hour and partition, of consecutive loads, become one file in the directory of the last of these loads.
`plan_merges` is pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.layout import published
from spark_kafkalog.load.layout.file_names import (
    LONGEST_TOPIC,
    SIGN,
    FileName,
    file_name,
    is_hidden,
    load_name,
    parse_file_name,
)


class CompactionError(RuntimeError):
    """A compaction cannot run or continue; the message says what to do."""


class NotParquetError(CompactionError):
    """The loads have another format, which cannot be compacted."""


class CompactionRunsError(RuntimeError):
    """Another compaction of the topic is running."""


class Input(NamedTuple):
    """A file to be replaced."""

    load: int
    name: str


@dataclass(frozen=True)
class Merge:
    """Files of one hour and partition, in the order of their offsets, and the file that replaces them."""

    inputs: tuple[Input, ...]
    output: str
    size: int

    @property
    def load(self) -> int:
        """The load whose directory gets the new file: the last one."""
        return self.inputs[-1].load


@dataclass(frozen=True)
class Group:
    """The merges of one hour, whose files are exchanged together."""

    hour: str
    """date=…/hour=…"""
    merges: tuple[Merge, ...]

    @property
    def loads(self) -> list[int]:
        """The loads that have files to replace in their directories of the hour."""
        return sorted({each.load for merge in self.merges for each in merge.inputs})


def plan_merges(topic: str, found: Sequence[tuple[str, int, str, int]], target_bytes: int) -> list[Group]:
    """Choose the files to merge. `found`: hour, load, name and size of files, all of one incarnation of the topic.

    Consecutive files become one of at most `target_bytes`. Files of three quarters of that stay as they are. Files
    that readers skip are replaced in any case: earlier versions gave them the hidden names of their topics. Pure.
    """
    by_place: dict[tuple[str, int], list[tuple[FileName, int, str, int]]] = defaultdict(list)
    for hour, load, name, size in found:
        parsed = parse_file_name(name)
        by_place[hour, parsed.partition].append((parsed, load, name, size))
    merges: dict[str, list[Merge]] = defaultdict(list)
    for (hour, partition), files in sorted(by_place.items()):
        for run in _runs(sorted(files, key=lambda each: each[0].start), target_bytes):
            output = file_name(topic, partition, run[0][0].start, run[-1][0].end, "parquet")
            inputs = tuple(Input(load, name) for _, load, name, _ in run)
            merges[hour].append(Merge(inputs, output, sum(size for *_, size in run)))
    return [Group(hour, tuple(each)) for hour, each in merges.items()]


def _runs(files: Sequence[Any], target_bytes: int) -> Iterator[list[Any]]:
    """Yield runs of at least two consecutive files whose sum is at most the target, and runs of one hidden file."""
    run: list[Any] = []
    total = 0
    for each in files:
        *_, name, size = each
        is_large = size * 4 >= target_bytes * 3 and not is_hidden(name)
        if run and (is_large or total + size > target_bytes or each[1] < run[-1][1]):
            if _is_worth_it(run):
                yield run
            run, total = [], 0
        if not is_large:
            run.append(each)
            total += size
    if _is_worth_it(run):
        yield run


def _is_worth_it(run: Sequence[Any]) -> bool:
    return len(run) > 1 or any(is_hidden(name) for _, _, name, _ in run)


def find_groups(files: Files, topic_path: str, loads: range | None, target_bytes: int) -> list[Group]:
    """Find the files to merge in the published loads (None: all of them)."""
    by_topic_id: dict[str, list[tuple[str, int, str, int]]] = defaultdict(list)
    topic = ""
    for number in published.numbers(files, topic_path):
        if loads is not None and number not in loads:
            continue
        document = published.read_document(files, topic_path, number)
        if document.format != "parquet":
            raise NotParquetError(f"the loads of {document.topic} are {document.format}; only parquet can be compacted")
        topic = document.topic
        # Offsets of a topic that was created again say nothing about those of the old one.
        by_topic_id[document.topic_id] += _data_files(files, topic_path, number)
    return [group for found in by_topic_id.values() for group in plan_merges(topic, found, target_bytes)]


def _data_files(files: Files, topic_path: str, number: int) -> Iterator[tuple[str, int, str, int]]:
    topic = topic_path.rpartition("/")[2]
    root = f"{topic_path}/{load_name(number)}"
    for date in files.list(root):
        if not date.name.startswith("date="):
            continue
        for hour in files.list(f"{root}/{date.name}"):
            for file in files.list(f"{root}/{date.name}/{hour.name}"):
                if file.name == f"{SIGN}.parquet":
                    continue
                try:
                    named = parse_file_name(file.name)
                except ValueError as error:
                    if is_hidden(file.name):
                        continue
                    raise CompactionError(
                        f"{root}/{date.name}/{hour.name}: {error}; no load has put it there. Move it away"
                    ) from None
                # Earlier versions wrote long names whole.
                if is_hidden(file.name) and named.topic not in (topic, topic[:LONGEST_TOPIC]):
                    continue
                yield f"{date.name}/{hour.name}", number, file.name, file.size
