"""Merges small files of published loads into bigger ones, while readers use them.

Plain directories cannot exchange several files atomically. So a reader that lists files during the exchange could see
rows twice, or not at all. This protocol makes such a reader *fail* instead; a reader that does not fail sees every row
once. It holds for readers that list first and open afterwards, as Spark, pyarrow, DuckDB and Hive do.

The files of one hour and partition, of consecutive loads, become one file in the directory of the last of these loads.
This happens hour by hour, and each step is the rename of one file:

1. a *sign* is placed in every directory that has files to replace. By its name it is a data file, but it is not
   Parquet, so a reader that has listed it fails when it opens it;
2. the old files are moved away;
3. the new files are moved in, under names that no file had before;
4. the signs are removed.

A reader that listed one of the directories between 1 and 4 has seen a sign, and fails. One that listed all of them
before 1 has the old files, and reads them, or fails because one of them was moved away. One that listed all of them
after 4 has the new ones. One that listed some before 1 and some after 4 has an old file in its list (every directory
with a sign had one), which no longer exists, and fails. A reader can go on reading files that it has opened: files that
were moved away stay in staging until they are swept.

A reader that takes every file called `*.parquet` below the topic, whatever its directory, sees no file of a compaction:
they have other suffixes until they are moved in (`.new`), and after they were moved away (`.replaced`).

The load's directories and their `_offsets.json` do not change: the state stays as it is, and no load's number becomes
free. From step 1 on the exchange can only go forwards. Renaming the work to `_compacting` commits it (and keeps a
second compaction out). After a compaction that died, the next run finishes the exchange from the places of its files.
It takes the work over by renaming `_compacting/<owner>`. From then on every step of a former owner that was only
suspended fails, because each step renames from or to a path below that directory.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from spark_kafkalog import faults
from spark_kafkalog.executor import stopping
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.compact_plan import CompactionError, CompactionRunsError, Group, Input, Merge, find_groups
from spark_kafkalog.load.formats import SCHEMA, ParquetFormat
from spark_kafkalog.load.layout.file_names import COMPACTING, REPLACED, SIGN, load_name
from spark_kafkalog.load.layout.staging import LEASE, STALE_AFTER_S, Judge, Staging, SweptError, sweep
from spark_kafkalog.load.load_options import COMPRESSION_LEVEL, MOST_FILE_BYTES, check_stale_after
from spark_kafkalog.load.runner import Runner, TaskFailedError
from spark_kafkalog.load.write import Checksummed

_SIGN_TEXT = b"A compaction is exchanging the files of this directory. Run the query again in a moment.\n"
_VERSION = 2
_SUFFIXES = {1: ("", ""), _VERSION: (".new", REPLACED)}
"""The suffixes of the names of new files and of those that were moved away, by the version of the plan."""
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    bytes: int = 0


# ---------------------------------------------------------------------------------------------- merging


@dataclass(frozen=True)
class MergeTask:
    """One merge, as a task."""

    files: Files
    inputs: tuple[str, ...]
    output: str
    compression_level: int


class Merged(NamedTuple):
    """The result of a task: its rows and bytes, and the path where the attempt wrote them."""

    rows: int
    bytes: int
    path: str


def merge(task: MergeTask) -> Merged:
    """Write the rows of the inputs, one after another, into a file of this attempt in the output's directory."""
    path = f"{task.output.rpartition('/')[0]}/{uuid4().hex}.new"
    output = Checksummed(task.files.create(path))
    buffered = io.BufferedWriter(output, 1 << 20)
    writer = ParquetFormat(buffered, task.compression_level)
    rows = 0
    for each in task.inputs:
        for batch in _rows_of(task.files, each):
            stopping.current().check()
            writer.write(batch)
            rows += batch.num_rows
    writer.close()
    buffered.close()
    return Merged(rows, output.size, path)


def _rows_of(files: Files, path: str) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a load's file."""
    with files.stream(path) as opened, _reading(path), pq.ParquetFile(opened) as file:
        if not file.schema_arrow.equals(SCHEMA):
            raise CompactionError(f"{path} has other columns than a load writes; it cannot be compacted")
        left = file.metadata.num_rows
        # Row groups bound what is in memory: a batch may span them, and rows may be large.
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group]):
                left -= batch.num_rows
                yield batch
        if left:
            raise CompactionError(f"{left} of {file.metadata.num_rows} rows could not be read from {path}")


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Add a file's name to Arrow's errors."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CompactionError(
            f"{path} cannot be read: {error}. Restore it from a copy, or leave its load out with --loads"
        ) from None


# ---------------------------------------------------------------------------------------------- the exchange


class _Work:
    """The directory of a compaction: its plan, new files, signs, and the files that were moved away.

    Attributes:
        current: The group that is being exchanged.
    """

    def __init__(
        self, files: Files, topic_path: str, path: str, groups: Sequence[Group], version: int = _VERSION
    ) -> None:
        self._files = files
        self._version = version
        self._new, self._replaced = _SUFFIXES[version]
        self._topic_path = topic_path
        self._path = path
        self._groups = groups
        self.current = 0

    @classmethod
    def read(cls, files: Files, topic_path: str, path: str) -> _Work:
        document = json.loads(files.read(f"{path}/plan.json"))
        if document["version"] not in _SUFFIXES:
            raise CompactionError(f"{path} was begun by another version of kafkalog, which must finish it")
        groups = [
            Group(
                group["hour"],
                tuple(
                    Merge(tuple(Input(*each) for each in merge_["inputs"]), merge_["output"], merge_["size"])
                    for merge_ in group["merges"]
                ),
            )
            for group in document["groups"]
        ]
        return cls(files, topic_path, path, groups, document["version"])

    def prepare(self) -> None:
        """Create directories, signs and the plan. The new files go to `new_path`."""
        for name in ("new", "signs", "old", "lifted"):
            self._files.make_directories(f"{self._path}/{name}")
        for index, group in enumerate(self._groups):
            self._files.make_directories(f"{self._path}/new/{index}")
            for load in group.loads:
                self._files.make_directories(f"{self._path}/old/{index}/{load}")
                self._files.write(f"{self._path}/signs/{index}-{load}", _SIGN_TEXT)
        groups = [{"hour": group.hour, "merges": [asdict(each) for each in group.merges]} for group in self._groups]
        self._files.write(f"{self._path}/plan.json", json.dumps({"version": self._version, "groups": groups}).encode())

    def new_path(self, index: int, name: str) -> str:
        return f"{self._path}/new/{index}/{name}{self._new}"

    def exchange(self) -> set[int]:
        """Exchange the files that are not exchanged yet; return the indexes of the groups that are exchanged then.

        Raises:
            FileNotFoundError: Another run took the work over.
        """
        lifted = {each.name for each in self._files.list(f"{self._path}/lifted")}
        waiting = {each.name for each in self._files.list(f"{self._path}/signs")}
        exchanged = set()
        for index, group in enumerate(self._groups):
            self.current = index
            signs = {f"{index}-{load}": self._sign(group, load) for load in group.loads}
            if not signs.keys() & lifted:
                if signs.keys() <= waiting and not self._all_there(group):
                    # Replaced by another compaction, or deleted, since it was planned. Nothing is exchanged yet.
                    continue
                self._move_all({f"{self._path}/signs/{name}": path for name, path in signs.items()}, "sign-up")
                self._move_all(self._replaced_files(index, group), "hidden")
                self._move_all(self._new_files(index, group), "shown")
            self._move_all({path: f"{self._path}/lifted/{name}" for name, path in signs.items()}, "sign-down")
            exchanged.add(index)
        return exchanged

    def _replaced_files(self, index: int, group: Group) -> dict[str, str]:
        """Return where the old files are, and where they are moved away to."""
        return {
            self._file(group, *each): f"{self._path}/old/{index}/{each.load}/{each.name}{self._replaced}"
            for merge_ in group.merges
            for each in merge_.inputs
        }

    def _new_files(self, index: int, group: Group) -> dict[str, str]:
        """Return where the new files are, and where they are moved in."""
        return {self.new_path(index, each.output): self._file(group, each.load, each.output) for each in group.merges}

    def _move_all(self, moves: Mapping[str, str], point: str) -> None:
        """Rename files, from the first path to the second, and force the names to the device.

        The new names are forced first: otherwise a machine that fails in between could leave a file without a name.
        """
        for source, target in moves.items():
            self._move(source, target)
            faults.point(f"compact-{point}")
        for paths in (moves.values(), moves.keys()):
            for directory in sorted({path.rpartition("/")[0] for path in paths}):
                self._files.sync(directory)

    def _move(self, source: str, target: str) -> None:
        """Rename a file, unless that was done before."""
        try:
            self._files.rename(source, target)
        except (FileNotFoundError, FileExistsError):
            if self._files.stat(source) is not None or self._files.stat(target) is None:
                raise

    def _all_there(self, group: Group) -> bool:
        return all(
            self._files.stat(self._file(group, *each)) is not None for merge_ in group.merges for each in merge_.inputs
        )

    def _file(self, group: Group, load: int, name: str) -> str:
        return f"{self._topic_path}/{load_name(load)}/{group.hour}/{name}"

    def by_hand(self) -> str:
        """Describe how to end the exchange of the current group by hand."""
        place = f"{self._topic_path}/load=…/{self._groups[self.current].hour}"
        return (
            f"delete what {self._path}/plan.json names as outputs of group {self.current} in {place}, move the files "
            f"in {self._path}/old/{self.current}/<load> back to {place}, each to its load and without the suffix "
            f"'{REPLACED}', and delete the files named {SIGN}; only then remove {self._path}"
        )

    def _sign(self, group: Group, load: int) -> str:
        return self._file(group, load, f"{SIGN}.parquet")

    def remove_empty_directories(self) -> None:
        """Remove directories from which everything was moved away."""
        for group in self._groups:
            for load in group.loads:
                hour = f"{self._topic_path}/{load_name(load)}/{group.hour}"
                self._files.remove_empty(hour)
                self._files.remove_empty(hour.rpartition("/")[0])


def compact(
    files: Files,
    topic_path: str,
    runner: Callable[[], Runner],
    *,
    loads: range | None = None,
    target_bytes: int = MOST_FILE_BYTES,
    compression_level: int = COMPRESSION_LEVEL,
    stale_after_s: float = STALE_AFTER_S,
) -> Compacted:
    """Merge the small files of the published loads `loads` (None: all).

    Raises:
        CompactionRunsError: Another compaction of the topic is running, or was first. Nothing has changed.
        CompactionError: The compaction cannot run or continue.
        SweptError: Another run considered this one dead and swept its staging directory.
        StateError: A published load cannot be read.
        OptionsError: An option is wrong.
        OSError: The file system has failed.
    """
    check_stale_after(stale_after_s)
    with Staging(files, topic_path) as staging:
        sweep(files, staging, stale_after_s)
        finish_abandoned(files, topic_path, staging, stale_after_s)
        if is_under_way(files, topic_path):
            raise CompactionRunsError(_runs_already(files, topic_path))
        groups = find_groups(files, topic_path, loads, target_bytes)
        if not groups:
            return Compacted()
        prepared = f"{staging.path}/compaction"
        work = _Work(files, topic_path, f"{prepared}/{staging.run_id}", groups)
        work.prepare()
        tasks = [
            MergeTask(
                files,
                tuple(f"{topic_path}/{load_name(load)}/{group.hour}/{name}" for load, name in merge_.inputs),
                work.new_path(index, merge_.output),
                compression_level,
            )
            for index, group in enumerate(groups)
            for merge_ in group.merges
        ]
        merged = _merged(runner(), tasks, staging, topic_path)
        faults.point("compact-merged")
        staging.check()
        for task, done in zip(tasks, merged, strict=True):
            files.rename(done.path, task.output)
        files.sync_tree(prepared)
        try:
            files.rename(prepared, f"{topic_path}/{COMPACTING}")
        except FileExistsError:
            raise CompactionRunsError(_runs_already(files, topic_path)) from None
        # Otherwise a machine that fails could have the work in staging again, and the next run would sweep it.
        files.sync(topic_path)
        faults.point("compact-committed")
        exchanged = _finish(files, topic_path, staging)
        kept = [index in exchanged for index, group in enumerate(groups) for _ in group.merges]
        return _result(list(compress(tasks, kept)), list(compress(merged, kept)), topic_path)


def _result(tasks: Sequence[MergeTask], merged: Sequence[Merged], topic_path: str) -> Compacted:
    """Return the result of the tasks whose files were exchanged.

    Raises:
        CompactionRunsError: There are none.
    """
    if not tasks:
        raise CompactionRunsError(_was_first(topic_path))
    before = sum(len(each.inputs) for each in tasks)
    return Compacted(before, len(tasks), sum(each.rows for each in merged), sum(each.bytes for each in merged))


def _merged(runner: Runner, tasks: Sequence[MergeTask], staging: Staging, topic_path: str) -> list[Merged]:
    """Run the tasks.

    Raises:
        CompactionRunsError: Another compaction has replaced an input.
    """
    try:
        return runner.run(merge, tasks)
    except (FileNotFoundError, TaskFailedError):
        staging.check()
        if all(task.files.stat(path) is not None for task in tasks for path in task.inputs):
            raise
        raise CompactionRunsError(_was_first(topic_path)) from None


def _runs_already(files: Files, topic_path: str) -> str:
    owner = ", ".join(each.name for each in files.list(f"{topic_path}/{COMPACTING}"))
    return f"another compaction ({owner}) of {topic_path} is under way; run this one when it is done"


def _was_first(topic_path: str) -> str:
    return (
        f"another compaction of {topic_path} was first, or something else has moved files away that were to be merged. "
        "This one has changed nothing; run it again to merge what is left"
    )


def is_under_way(files: Files, topic_path: str) -> bool:
    """Return whether a compaction of the topic is exchanging files, or died during that."""
    return files.stat(f"{topic_path}/{COMPACTING}") is not None


def finish_abandoned(files: Files, topic_path: str, staging: Staging, stale_after_s: float) -> bool:
    """Finish a compaction whose run died. Return whether there was one."""
    root = f"{topic_path}/{COMPACTING}"
    found = files.list(root)
    if not found:
        files.remove_empty(root)
        return False
    if not Judge.of(files, staging, stale_after_s).is_dead(found[0].name):
        return False
    try:
        files.rename(f"{root}/{found[0].name}", f"{root}/{staging.run_id}")
    except FileNotFoundError:
        # Finished, or taken over by another.
        return False
    _finish(files, topic_path, staging)
    return True


def _finish(files: Files, topic_path: str, staging: Staging) -> set[int]:
    """Exchange the files, and return the indexes of the groups whose files are exchanged.

    Move the old files to where they are swept later, because readers may still read them.
    """
    root = f"{topic_path}/{COMPACTING}"
    path = f"{root}/{staging.run_id}"
    work = None
    try:
        work = _Work.read(files, topic_path, path)
        exchanged = work.exchange()
        faults.point("compact-exchanged")
        files.replace(f"{path}/{LEASE}", b"{}")
        # One run may finish two: that of a dead run, and its own.
        files.rename(path, f"{staging.path}-replaced-{uuid4().hex[:8]}")
    except FileNotFoundError as error:
        if files.stat(path) is None:
            raise SweptError(
                "another run took this compaction for dead and goes on with it; nothing is lost by that"
            ) from None
        raise CompactionError(
            f"a compaction cannot go on: {error}. Something below {topic_path} was deleted while it ran. Put that "
            f"back and run it again{'' if work is None else f', or {work.by_hand()}'}"
        ) from None
    faults.point("compact-moved-away")
    files.remove_empty(root)
    work.remove_empty_directories()
    return exchanged
