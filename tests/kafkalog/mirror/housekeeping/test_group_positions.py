"""Test that what groups reach in the target comes back into the source, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import CommittedOffset
from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.classic.protocol import MalformedMemberDataError
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.housekeeping.checkpoints import Checkpoints
from kafkalog.mirror.housekeeping.group_positions import GroupPositions, Return, to_bring_back
from kafkalog.mirror.housekeeping.marks import Marks
from kafkalog.mirror.housekeeping.refusals import ask_each
from kafkalog.mirror.housekeeping.target_logs import passes_over
from kafkalog.mirror.internal_topics.formats import Checkpoint
from kafkalog.mirror.internal_topics.runs import Run
from kafkalog.mirror.internal_topics.stored import read_marks
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import GroupAuthorizationFailedError
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, committed, read_all
from tests.kafkalog.mirror.housekeeping.support import ON, commit
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

TP = TopicPartition("words", 0)


@pytest.mark.parametrize(
    ("there", "translated", "expected"),
    [
        (None, 7, Return({TP: CommittedOffset(7, metadata="note")}, {})),
        (6, 7, Return({TP: CommittedOffset(7, metadata="note")}, {})),
        (7, 7, Return({}, {TP: 9})),
        (8, 7, Return({}, {TP: 9})),
        (6, None, Return({}, {})),
    ],
)
def test_a_group_only_goes_forward_in_the_source(there: int | None, translated: int | None, expected: Return) -> None:
    reached = {TP: CommittedOffset(9, leader_epoch=3, metadata="note")}
    committed = {} if there is None else {TP: CommittedOffset(there)}
    assert to_bring_back(reached, committed, lambda tp, offset: translated) == expected


class Groups:
    """Groups of one partition, of which each test commits positions; `source` and `target` are what they have."""

    def __init__(self, clusters: Clusters, alias: str) -> None:
        self.clusters = clusters
        self.alias = alias
        self.topic = f"words-{alias}"
        self.remote = f"{alias}.{self.topic}"
        self._witnesses = 0

    def name(self, group: str) -> str:
        return f"{group}-{self.alias}"

    def source(self, group: str) -> int | None:
        return committed(self.clusters.source, self.name(group)).get(TopicPartition(self.topic, 0))

    def target(self, group: str) -> int | None:
        return committed(self.clusters.target, self.name(group)).get(TopicPartition(self.remote, 0))

    def is_at(self, group: str, offset: int) -> bool:
        return self.target(group) == offset

    def reach(self, side: str, group: str, offset: int) -> None:
        topic = self.topic if side == "source" else self.remote
        commit(getattr(self.clusters, side), self.name(group), topic, offset)

    def look(self) -> None:
        """Wait until the mirror has looked at all groups after now, both ways, and twice."""
        for _ in range(2):
            forth, back = f"forth{self._witnesses}", f"back{self._witnesses}"
            self._witnesses += 1
            self.reach("source", forth, 1)
            wait_until(partial(self._is_at_1, self.target, forth), "the mirror looks at the source")
            self.reach("target", back, 1)
            wait_until(partial(self._is_at_1, self.source, back), "the mirror looks at the target")

    @staticmethod
    def _is_at_1(side: Callable[[str], int | None], group: str) -> bool:
        return side(group) == 1


@pytest.fixture
def groups(clusters: Clusters, alias: str) -> Groups:
    """Groups of a topic with 20 records."""
    found = Groups(clusters, alias)
    make(clusters.source, found.topic)
    write(clusters.source, found.topic, range(20))
    return found


@pytest.mark.parametrize("offsets", ["translate", "keep"])
def test_offsets_that_are_reset_in_the_source_stay_so(
    groups: Groups, start_mirror: StartMirror, alias: str, offsets: str
) -> None:
    properties = {"groups": f".*-{alias}", "replication_offsets": offsets, **ON}
    mirror = start_mirror(groups.topic, **properties)
    groups.reach("source", "g", 12)
    wait_until(lambda: groups.target("g") == 12, "the position is in the target")
    groups.reach("source", "g", 3)
    groups.look()
    assert (groups.source("g"), groups.target("g")) == (3, 12)
    mirror.stop()
    mirror = start_mirror(groups.topic, **properties)
    groups.look()
    assert (groups.source("g"), groups.target("g")) == (3, 12)
    groups.reach("target", "g", 15)
    wait_until(lambda: groups.source("g") == 15, "what the group reaches in the target comes back")
    # What came back is known, also to the next process.
    wait_until(lambda: 15 in read_marks(mirror.settings).values(), "the position is marked")
    groups.reach("source", "g", 4)
    groups.look()
    mirror.stop()
    start_mirror(groups.topic, **properties)
    groups.look()
    assert (groups.source("g"), groups.target("g")) == (4, 15)


def test_a_group_that_is_further_in_the_source_is_not_brought_back(
    groups: Groups, start_mirror: StartMirror, alias: str
) -> None:
    start_mirror(groups.topic, groups=f".*-{alias}", **ON)
    groups.reach("target", "g", 8)
    wait_until(lambda: groups.source("g") == 8, "the position comes back")
    groups.reach("source", "g", 11)
    groups.reach("target", "g", 10)
    wait_until(lambda: groups.target("g") == 11, "the target follows")
    groups.reach("source", "g", 2)
    groups.look()
    assert (groups.source("g"), groups.target("g")) == (2, 11)


def test_a_group_with_members_in_the_source_keeps_its_position(
    clusters: Clusters, groups: Groups, start_mirror: StartMirror, alias: str
) -> None:
    start_mirror(groups.topic, groups=f".*-{alias}", **ON)
    with Consumer(
        {**clusters.client("source"), "group.id": groups.name("g"), "enable.auto.commit": "false"}
    ) as consumer:
        consumer.subscribe([groups.topic])
        wait_until(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()), "the group has a member")
        groups.reach("target", "g", 9)
        groups.look()
        assert groups.source("g") is None
    wait_until(lambda: groups.source("g") == 9, "the position comes back after the member has left")


def test_a_position_that_another_mirror_may_have_committed_does_not_come_back(
    groups: Groups, start_mirror: StartMirror, alias: str
) -> None:
    """A mirror that stored no marks has brought the group into the target; then it was reset in the source."""
    properties = {"groups": f".*-{alias}", **ON}
    mirror = start_mirror(groups.topic, sync_group_offsets_back_enabled="false", **properties)
    groups.reach("source", "g", 12)
    wait_until(lambda: groups.target("g") == 12, "the position is in the target")
    mirror.stop()
    groups.reach("source", "g", 3)
    start_mirror(groups.topic, **properties)
    groups.look()
    assert (groups.source("g"), groups.target("g")) == (3, 12)


def test_the_way_back_can_be_turned_off(groups: Groups, start_mirror: StartMirror, alias: str) -> None:
    mirror = start_mirror(groups.topic, groups=f".*-{alias}", sync_group_offsets_back_enabled="false", **ON)
    groups.reach("target", "g", 9)
    for offset in (1, 2):
        groups.reach("source", "witness", offset)
        wait_until(partial(groups.is_at, "witness", offset), "the mirror looks at both sides")
    assert groups.source("g") is None
    assert mirror.stop() is None
    assert read_marks(mirror.settings) == {}


def test_a_note_comes_along_both_ways(
    clusters: Clusters, groups: Groups, start_mirror: StartMirror, alias: str
) -> None:
    start_mirror(groups.topic, groups=f".*-{alias}", **ON)
    here, there = TopicPartition(groups.topic, 0), TopicPartition(groups.remote, 0)
    group = groups.name("g")
    with Admin(clusters.client("source")) as source, Admin(clusters.client("target")) as target:
        source.groups.alter_offsets(group, {here: CommittedOffset(5, metadata="forth")})
        wanted = {there: CommittedOffset(5, metadata="forth")}
        wait_until(lambda: target.groups.offsets([group])[group] == wanted, "the note is in the target")
        target.groups.alter_offsets(group, {there: CommittedOffset(7, metadata="back")})
        wanted_back = {here: CommittedOffset(7, metadata="back")}
        wait_until(lambda: source.groups.offsets([group])[group] == wanted_back, "the note is in the source")


def test_mirrors_both_ways_come_to_rest(
    clusters: Clusters, groups: Groups, start_mirror: StartMirror, alias: str
) -> None:
    """Two processes one way, one the other way, and a group in topics of both clusters."""
    own = f"own-{alias}"
    make(clusters.target, own)
    write(clusters.target, own, range(20))
    properties = {"groups": f".*-{alias}", **ON}
    for _ in range(2):
        start_mirror(groups.topic, **properties)
    start_mirror(own, reverse=True, **properties)
    read_all(clusters.target, groups.remote, 20)
    read_all(clusters.source, f"target.{own}", 20)
    groups.reach("source", "g", 6)
    commit(clusters.target, groups.name("g"), own, 7)

    def positions() -> list[dict[TopicPartition, int]]:
        return [committed(address, groups.name("g")) for address in clusters]

    def expected(first: int, second: int) -> list[dict[TopicPartition, int]]:
        return [
            {TopicPartition(groups.topic, 0): first, TopicPartition(f"target.{own}", 0): second},
            {TopicPartition(groups.remote, 0): first, TopicPartition(own, 0): second},
        ]

    wait_until(lambda: positions() == expected(6, 7), "both sides have both positions")
    groups.reach("target", "g", 8)
    commit(clusters.source, groups.name("g"), f"target.{own}", 9)
    wait_until(lambda: positions() == expected(8, 9), "both positions are back")
    groups.look()
    assert positions() == expected(8, 9)


def test_a_process_that_dies_after_it_has_brought_a_position_over_leaves_a_mark(
    clusters: Clusters, groups: Groups, alias: str
) -> None:
    """The next one does not take that position for the group's own, when the offsets were reset meanwhile."""
    tp = TopicPartition(groups.topic, 0)
    clients = clusters.client("source"), clusters.client("target")
    settings, _ = MirrorSettings.of({"groups": f".*-{alias}"}, alias, "target", clients)
    for topic in (groups.remote, settings.naming.checkpoints, settings.naming.group_marks):
        make(clusters.target, topic)
    write(clusters.target, groups.remote, range(20))
    progress = Progress()
    with Admin(clients[0]) as source, Admin(clients[1]) as target, Producer(clients[1]) as producer:

        def begin() -> tuple[Checkpoints, GroupPositions]:
            progress.assigned([tp], {tp: 20}, [(tp, Run(0, 0, 20))])
            checkpoints = Checkpoints(settings, progress, source, target, producer)
            marks = Marks(settings, progress, producer)
            checkpoints.emit()
            return checkpoints, GroupPositions(settings, progress, (source, target), checkpoints, marks)

        groups.reach("source", "g", 12)
        checkpoints, positions = begin()
        positions.synchronize()
        positions.bring_back()
        assert read_marks(settings) == {(groups.name("g"), TopicPartition(groups.remote, 0)): 12}
        groups.reach("source", "g", 16)
        checkpoints.emit()
        positions.synchronize()
        groups.reach("source", "g", 3)
        _, positions = begin()
        positions.bring_back()
        assert (groups.source("g"), groups.target("g")) == (3, 16)
        groups.reach("target", "g", 17)
        positions.bring_back()
        assert (groups.source("g"), groups.target("g")) == (17, 17)


class Housekeeper:
    """The jobs of one process that has the topic of `groups`, each done when a test says so."""

    def __init__(self, groups: Groups, stack: ExitStack) -> None:
        self._groups = groups
        self._tp = TopicPartition(groups.topic, 0)
        clients = groups.clusters.client("source"), groups.clusters.client("target")
        self.settings, _ = MirrorSettings.of({"groups": f".*-{groups.alias}"}, groups.alias, "target", clients)
        source, self.target = (stack.enter_context(Admin(client)) for client in clients)
        self.producer = stack.enter_context(Producer(clients[1]))
        self._progress = Progress()
        self._checkpoints = Checkpoints(self.settings, self._progress, source, self.target, self.producer)
        marks = Marks(self.settings, self._progress, self.producer)
        between = source, self.target
        self._positions = GroupPositions(self.settings, self._progress, between, self._checkpoints, marks)
        for topic in (self.settings.naming.checkpoints, self.settings.naming.group_marks):
            make(groups.clusters.target, topic)

    def make_target(self, count: int) -> None:
        """Make the topic in the target, also in the place of another one."""
        name = self._groups.remote
        if name in self.target.list_topics():
            self.target.delete_topics([name])
            wait_until(lambda: name not in self.target.list_topics(), "the topic is gone")
            wait_until(lambda: self._groups.target("g") is None, "the positions in it are gone")
        make(self._groups.clusters.target, name)
        write(self._groups.clusters.target, name, range(count))

    def has(self, *runs: Run) -> None:
        self._progress.assigned([self._tp], {self._tp: 20}, [(self._tp, run) for run in runs])

    def do_all(self) -> tuple[int | None, int | None]:
        """Do each job once; return the positions of group g in the source and in the target."""
        self._checkpoints.emit()
        self._positions.synchronize()
        self._positions.bring_back()
        return self._groups.source("g"), self._groups.target("g")


@pytest.fixture
def keeper(groups: Groups) -> Iterator[Housekeeper]:
    with ExitStack() as stack:
        yield Housekeeper(groups, stack)


@pytest.mark.parametrize("named", [True, False], ids=["with the topic's id", "as MirrorMaker 2 writes it"])
def test_a_checkpoint_of_a_topic_that_was_deleted_in_the_target_moves_no_group(
    groups: Groups, keeper: Housekeeper, named: bool
) -> None:
    keeper.make_target(40)
    groups.reach("source", "g", 12)
    keeper.has(Run(0, 0, 2), Run(2, 22, 18))
    assert keeper.do_all() == (12, 32)
    if not named:
        old = Checkpoint(groups.name("g"), TopicPartition(groups.remote, 0), 12, 32)
        keeper.producer.send(keeper.settings.naming.checkpoints, old.value(), old.key(), partition=0).result(60)
    keeper.make_target(40)
    groups.reach("source", "g", 15)
    keeper.has(Run(0, 0, 20))
    assert keeper.do_all() == (15, 15)


def test_a_group_waits_for_the_first_records_of_a_topic_that_was_deleted_in_the_target(
    groups: Groups, keeper: Housekeeper
) -> None:
    """Until they are mirrored, the map of offsets is that of the deleted topic."""
    keeper.make_target(40)
    groups.reach("source", "g", 12)
    stored = Run(0, 20, 20)
    keeper.has(stored)
    assert keeper.do_all() == (12, 32)
    keeper.make_target(0)
    groups.reach("source", "g", 16)
    assert keeper.do_all() == (16, None)
    write(groups.clusters.target, groups.remote, range(5))
    keeper.has(stored, Run(15, 0, 5))
    assert keeper.do_all() == (16, 1)


def test_a_mark_of_a_topic_that_was_deleted_in_the_target_holds_no_position_back(
    groups: Groups, keeper: Housekeeper
) -> None:
    keeper.make_target(40)
    groups.reach("source", "g", 12)
    keeper.has(Run(0, 20, 20))
    assert keeper.do_all() == (12, 32)
    keeper.make_target(20)
    keeper.has(Run(0, 0, 20))
    groups.reach("target", "g", 18)
    assert keeper.do_all() == (18, 18)


@pytest.mark.parametrize(
    ("upstream", "downstream", "passes"),
    [(1, 11, False), (1, 12, True), (4, 14, False), (4, 17, False), (4, 18, True), (8, 99, False), (-1, 11, True)],
)
def test_a_position_must_not_be_behind_a_record_that_was_not_read(upstream: int, downstream: int, passes: bool) -> None:
    assert passes_over([Run(0, 10, 4), Run(6, 17, 2)], upstream, downstream) is passes


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("no"), MalformedMemberDataError("of no consumer")])
def test_groups_that_are_refused_are_left_out(error: Exception) -> None:
    refused: list[tuple[str, Exception]] = []

    def ask(names: Iterable[str]) -> dict[str, int | Exception]:
        return {name: error if name == "c" else 1 for name in names}

    found = ask_each("abcdefgh", ask, lambda name, why: refused.append((name, why)))
    assert "".join(found) == "abdefgh"
    assert refused == [("c", error)]
