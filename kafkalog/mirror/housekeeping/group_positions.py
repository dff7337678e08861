"""Bring the positions of consumer groups into the target (KIP-545), and from there back into the source.

Both ways a position is committed for groups that have no members where it is committed, and only forward. What a group
has reached in the target comes back: a position there that is beyond its mark (`marks`), because the mirror has not
committed it. It is translated so that no record is skipped that the group has not read. Each process does this for the
partitions that it mirrors. Source of the way forth: `MirrorCheckpointTask.syncGroupOffset`; MirrorMaker 2 has no way
back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import DEAD, EMPTY, CommittedOffset
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.housekeeping.checkpoints import Checkpoints
from kafkalog.mirror.housekeeping.marks import Marks
from kafkalog.mirror.housekeeping.refusals import Refusals, ask_each, consumer_groups, describing, offsets_of
from kafkalog.mirror.internal_topics.formats import Checkpoint
from kafkalog.mirror.log_ends import log_ends
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import KafkaError, UnknownMemberIdError

logger = logging.getLogger(__name__)

Positions = Mapping[TopicPartition, CommittedOffset]
"""The offsets that a group has committed."""


def to_commit(
    checkpoints: Mapping[TopicPartition, Checkpoint], committed: Positions
) -> dict[TopicPartition, CommittedOffset]:
    """Return what to commit for a group of the target without members: it only goes forward."""
    return {
        tp: CommittedOffset(each.downstream, metadata=each.metadata)
        for tp, each in checkpoints.items()
        if tp not in committed or committed[tp].offset < each.downstream
    }


class Return(NamedTuple):
    """The decision about the positions that a group has reached in the target; partitions are those of the source."""

    commits: dict[TopicPartition, CommittedOffset]
    """The offsets to commit in the source."""
    known: dict[TopicPartition, int]
    """Positions in the target that the source has already."""


def to_bring_back(
    reached: Positions, committed: Positions, translate_back: Callable[[TopicPartition, int], int | None]
) -> Return:
    """Decide about the positions that a group has reached in the target by itself.

    Args:
        reached: They, by partition of the source.
        committed: What the group has committed in the source.
        translate_back: Returns the offset of the source for one of the target; None where it is not known.
    """
    found = Return({}, {})
    for tp, at in reached.items():
        upstream = translate_back(tp, at.offset)
        if upstream is None:
            continue
        if tp in committed and committed[tp].offset >= upstream:
            found.known[tp] = at.offset
        else:
            found.commits[tp] = CommittedOffset(upstream, metadata=at.metadata)
    return found


def within(
    offsets: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int], committed: Positions
) -> dict[TopicPartition, CommittedOffset]:
    """Return what to commit in the source: not beyond its ends, for it may have lost records, and only forward."""
    found = {tp: at._replace(offset=min(at.offset, ends[tp])) for tp, at in offsets.items()}
    return {tp: at for tp, at in found.items() if tp not in committed or committed[tp].offset < at.offset}


class GroupPositions:
    """The positions of groups in the partitions that `progress` has; for one thread."""

    def __init__(
        self,
        settings: MirrorSettings,
        progress: Progress,
        clients: tuple[Admin, Admin],
        checkpoints: Checkpoints,
        marks: Marks | None,
    ) -> None:
        """Use the connections to the source and to the target; without `marks` nothing is brought back."""
        self._progress, self._checkpoints, self._marks = progress, checkpoints, marks
        self._source, self._target = clients
        self._naming = settings.naming
        self._filters = settings.group_filter, settings.sync_group_filter
        self._refusals = Refusals()

    # Forth

    def synchronize(self) -> None:
        """Commit the translated positions of groups that have no members in the target.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        mine = self._remote()
        if not mine:
            return
        self._checkpoints.refresh()
        wanted = {
            group: {tp: each for tp, each in checkpoints.items() if tp in mine and self._checkpoints.is_usable(each)}
            for group, checkpoints in self._checkpoints.newest.items()
            if self._allows(group)
        }
        wanted = {group: checkpoints for group, checkpoints in wanted.items() if checkpoints}
        refused = partial(self._say_refused, "target")
        described = ask_each(wanted, describing(self._target), refused)
        idle = [group for group, each in described.items() if each.state in (EMPTY, DEAD)]
        for group, committed in ask_each(idle, offsets_of(self._target), refused).items():
            if offsets := to_commit(wanted[group], committed):
                if self._marks is not None:
                    self._marks.refresh(self._checkpoints.target_ids)
                    self._marks.store(group, {tp: at.offset for tp, at in offsets.items()})
                self._commit(self._target, "target", group, offsets)

    # Back

    def bring_back(self) -> None:
        """Commit in the source what groups have reached in the target, if they have no members in the source.

        Raises:
            KafkaError, ClientError: A cluster cannot be asked.
        """
        mine = self._remote()
        if self._marks is None or not mine or not self._checkpoints.are_current:
            return
        self._checkpoints.refresh()
        self._marks.refresh(self._checkpoints.target_ids)
        reached = self._reached(self._marks, mine)
        refused = partial(self._say_refused, "source")
        there = ask_each(reached, offsets_of(self._source), refused)
        decided = {
            group: to_bring_back(reached[group], committed, self._progress.translate_back)
            for group, committed in there.items()
        }
        forward = [group for group, each in decided.items() if each.commits]
        described = ask_each(forward, describing(self._source), refused)
        for group, each in decided.items():
            done = dict(each.known)
            if each.commits and group in described and described[group].state in (EMPTY, DEAD):
                # Those whose end is not known have their turn later.
                ends = log_ends(self._source.cluster, "source", each.commits, READ_COMMITTED)
                offsets = within({tp: each.commits[tp] for tp in ends}, ends, there[group])
                if not offsets or self._commit(self._source, "source", group, offsets):
                    done |= {tp: reached[group][tp].offset for tp in ends}
            if done:
                names = self._naming
                self._marks.store(
                    group, {TopicPartition(names.remote(tp.topic), tp.partition): at for tp, at in done.items()}
                )

    def _reached(
        self, marks: Marks, mine: Mapping[TopicPartition, TopicPartition]
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Return the positions beyond their marks, by group and partition of the source.

        A checkpoint without a mark is of a mirror that stored none. The position in the target may be its, and counts
        as known.
        """
        names = [each for each in consumer_groups(self._target, "target", self._refusals) if self._allows(each)]
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        refused = partial(self._say_refused, "target")
        for group, committed in ask_each(names, offsets_of(self._target), refused).items():
            before = self._checkpoints.newest.get(group, {})
            unmarked: dict[TopicPartition, int] = {}
            for tp, at in committed.items():
                if tp not in mine:
                    continue
                mark = marks.of(group, tp)
                if mark is None and tp in before:
                    unmarked[tp] = at.offset
                elif mark is None or at.offset > mark:
                    found.setdefault(group, {})[mine[tp]] = at
            if unmarked:
                marks.store(group, unmarked)
        return found

    # Both

    def _remote(self) -> dict[TopicPartition, TopicPartition]:
        """Return the partitions that this process has, by their names in the target."""
        partitions = self._progress.partitions()
        return {TopicPartition(self._naming.remote(tp.topic), tp.partition): tp for tp in partitions}

    def _allows(self, group: str) -> bool:
        return all(each.allows(group) for each in self._filters)

    def _commit(self, admin: Admin, where: str, group: str, offsets: Positions) -> bool:
        """Commit positions; return whether that was done. What is refused is said once."""
        try:
            admin.groups.alter_offsets(group, offsets)
        except UnknownMemberIdError:
            logger.info("group %s has members in the %s: its positions there are its own", group, where)
            return False
        except KafkaError as error:
            self._say_refused(where, group, error)
            return False
        logger.info("group %s: committed %d positions in the %s", group, len(offsets), where)
        return True

    def _say_refused(self, where: str, group: str, error: Exception) -> None:
        what = f"the positions of group {group} are not brought into the {where}"
        self._refusals.say(what, error, f"Describe and Read on the group in the {where}")
