"""Deciding what a repair will do about the findings of the checks. Nothing is changed here."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from broker.log.tools.checks.findings import Finding, Level, Remedy
from broker.log.tools.checks.partition_check import PartitionReport, growing_epochs
from broker.log.tools.checks.segment_check import Damage, SegmentReport
from broker.log.tools.targets import PartitionDir
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET


class Choice(Enum):
    """Choose what to do when valid batches follow damaged ones."""

    ASK = "ask"
    """Do nothing, and ask the user to choose."""
    SKIP = "skip"
    """Lose only the damaged batches; batches without records take their offsets."""
    TRUNCATE = "truncate"
    """Lose everything from the damage on, as a broker's own recovery does."""


@dataclass(frozen=True)
class Action(ABC):
    """Describe one change to one file of a partition; the backup keeps what it removes."""

    path: str

    @property
    @abstractmethod
    def text(self) -> str:
        """A description of the action, for the user."""


@dataclass(frozen=True)
class CutLog(Action):
    """End a `.log` file at `position`."""

    position: int
    size: int

    @property
    def text(self) -> str:
        return f"cut {self.path} at position {self.position}: {self.size - self.position} bytes go"


@dataclass(frozen=True)
class ReplaceRanges(Action):
    """Replace damaged ranges of a `.log` file by batches without records."""

    ranges: tuple[tuple[int, int], ...]
    following: int
    """The offset before which the segment ends: that of the next one, or the first that its index cannot name."""

    @property
    def text(self) -> str:
        size = sum(end - start for start, end in self.ranges)
        places = ", ".join(f"{start} to {end}" for start, end in self.ranges)
        return f"take {size} damaged bytes out of {self.path} (positions {places}); their offsets stay, without records"


@dataclass(frozen=True)
class MoveAway(Action):
    """Remove a file from the log."""

    why: str

    @property
    def text(self) -> str:
        return f"move {self.path} away: {self.why}"


@dataclass(frozen=True)
class RebuildIndexes(Action):
    """Write offset and time index of a segment anew. `path` is its `.log` file."""

    base: int

    @property
    def text(self) -> str:
        return f"build the indexes of {self.path} anew"


@dataclass(frozen=True)
class RebuildTransactions(Action):
    """Write the transaction index of a segment anew. `path` is its `.log` file."""

    base: int

    @property
    def text(self) -> str:
        return f"build the transaction index of {self.path} anew"


@dataclass(frozen=True)
class RewriteEpochs(Action):
    """Write `leader-epoch-checkpoint` anew."""

    rows: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        return f"write {self.path} anew: {len(self.rows)} leader epochs, from the batches"


@dataclass
class Plan:
    """Hold what will be done to a partition, in this order, and what will be left as it is."""

    partition: PartitionDir
    actions: list[Action]
    left: list[Finding]
    """Findings that stay because there is no remedy, or because the user has made no choice."""
    end: int
    """The log end offset afterwards."""
    recover_from: int | None
    """Base offset of the first segment whose `.log` file is changed, or None."""


def plan_repair(report: PartitionReport, choice: Choice = Choice.ASK) -> Plan:
    """Return the plan that repairs the partition."""
    partition = report.partition
    plan = Plan(partition, [], [], report.next_offset, None)
    segments = _plan_logs(report, choice, plan)
    changed = plan.recover_from
    for segment in segments:
        path = partition.file(segment.base, names.LOG)
        touched = any(isinstance(action, CutLog | ReplaceRanges) and action.path == path for action in plan.actions)
        stays_damaged = not touched and _damages(segment, is_last=segment is segments[-1])
        if touched or (segment.indexes_wrong and not stays_damaged):
            plan.actions.append(RebuildIndexes(path, segment.base))
        # Lost batches may have begun or ended transactions whose rows are in later segments.
        after = changed is not None and segment.base > changed and segment.transactions
        if touched or after or segment.base in report.wrong_transaction_indexes:
            plan.actions.append(RebuildTransactions(path, segment.base))
    kept = {segment.base for segment in segments}
    for name in sorted(partition.files):
        offset = names.offset_of(name)
        if name.endswith(names.SNAPSHOT) and offset is not None:
            if name in report.wrong_snapshots:
                plan.actions.append(MoveAway(os.path.join(partition.path, name), "it contradicts the log"))
            elif changed is not None and offset > changed and (offset in kept or offset > plan.end):
                plan.actions.append(
                    MoveAway(os.path.join(partition.path, name), "it describes the log before the repair")
                )
    if report.wrong_epochs or (changed is not None and names.LEADER_EPOCH_CHECKPOINT in partition.files):
        path = os.path.join(partition.path, names.LEADER_EPOCH_CHECKPOINT)
        plan.actions.append(RewriteEpochs(path, _epochs(segments, plan.end)))
    hopeless = (Remedy.RESTORE,)
    plan.left += [f for f in report.findings if f.level is Level.ERROR and f.remedy in hopeless]
    return plan


def _plan_logs(report: PartitionReport, choice: Choice, plan: Plan) -> list[SegmentReport]:
    """Plan the changes of `.log` files; return the segments that remain."""
    partition, segments = report.partition, report.segments
    for at, segment in enumerate(segments):
        path = partition.file(segment.base, names.LOG)
        is_last = at == len(segments) - 1
        damages = _damages(segment, is_last=is_last)
        if not damages:
            continue
        tail = next((damage for damage in damages if is_last and not damage.sound_after), None)
        inner = [damage for damage in damages if damage.sound_after or not is_last]
        if inner and choice is Choice.ASK:
            # Its indexes cannot be built behind the damage.
            plan.left += [f for f in segment.findings if f.level is Level.ERROR and f.remedy is not Remedy.RESTORE]
            continue
        if plan.recover_from is None:
            plan.recover_from = segment.base
        if inner and choice is Choice.TRUNCATE:
            plan.actions.append(CutLog(path, inner[0].position, segment.size))
            plan.end = inner[0].expected
            for later in segments[at + 1 :]:
                plan.actions += _move_segment(partition, later.base)
            return segments[: at + 1]
        if tail is not None:
            plan.actions.append(CutLog(path, tail.position, segment.size))
        if inner:
            # Compaction may have removed so many offsets before the next segment that an index cannot name them all.
            reach = segment.base + MAX_RELATIVE_OFFSET + 1
            following = min(segments[at + 1].base, reach) if not is_last else segment.next_offset
            plan.actions.append(ReplaceRanges(path, tuple(_merged(inner)), following))
    return segments


def _damages(segment: SegmentReport, *, is_last: bool) -> list[Damage]:
    """Return the damage of a segment without the space that `preallocate` has reserved."""
    return [damage for damage in segment.damages if not (is_last and damage.is_reserve)]


def _merged(damages: list[Damage]) -> Iterator[tuple[int, int]]:
    start, end = damages[0].position, damages[0].end
    for damage in damages[1:]:
        if damage.position > end:
            yield start, end
            start = damage.position
        end = damage.end
    yield start, end


def _move_segment(partition: PartitionDir, base: int) -> Iterator[Action]:
    for kind in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
        if names.segment_name(base, kind) in partition.files:
            yield MoveAway(partition.file(base, kind), "it comes after the damage")


def _epochs(segments: list[SegmentReport], end: int) -> tuple[tuple[int, int], ...]:
    rows: list[tuple[int, int]] = []
    for epoch, first in growing_epochs(segments):
        if first < end and (not rows or epoch > rows[-1][0]):
            rows.append((epoch, first))
    return tuple(rows)
