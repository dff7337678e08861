"""Test that a group whose change of protocol cannot be stored stays as the log says."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.requests import JoinRequest, JoinResult, Leaver
from broker.coordinator.group.kip848 import consumer_membership
from broker.coordinator.group.kip848.consumer_groups import ConsumerGroups
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.kip848.conversion import upgraded
from broker.coordinator.group.kip848.formats import embedded
from broker.coordinator.group.kip848.model import JOIN_EPOCH, LEAVE_EPOCH, NO_PARTITIONS
from broker.coordinator.group.membership import Moment
from kafkalog.protocol.embedded.consumer import (
    ConsumerAssignment,
    ConsumerSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    GroupIdNotFoundError,
    NotCoordinatorError,
    UnknownServerError,
)
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalog.protocol.primitives import EncodeError
from tests.broker.api.groups.groups_support import subscription
from tests.broker.coordinator.group.classic.classic_world import SESSION_MS
from tests.broker.coordinator.group.kip848.support import FakeTopics
from tests.broker.coordinator.group.running import Start
from tests.broker.coordinator.support import begin_epoch, refuse_appends

NONE = ErrorCode.NONE


class Changing:
    """A group `g` of one partition_groups, which may change both ways."""

    def __init__(self, start: Start, **settings: str) -> None:
        self.running = start(
            offsets_topic_num_partitions="1", group_consumer_migration_policy="bidirectional", **settings
        )
        self.consumers = ConsumerGroups(self.running.groups, self.running.parts.cache)
        self.running.ready()

    @property
    def kind(self) -> str:
        (group,) = self.running.groups.groups()
        return group.membership.kind

    @property
    def in_log(self) -> set[tuple[str, str]]:
        """The kind and state of the groups that a reload finds."""
        (partition_groups,) = self.running.groups.all_partition_groups()
        begin_epoch(partition_groups.partition)
        self.running.ready()
        return {(group.membership.kind, group.membership.state_name) for group in self.running.groups.groups()}

    def heartbeat(self, epoch: int) -> Any:
        """Of the member of the consumer protocol."""
        return self.running.run(self.sent(epoch))

    async def sent(self, epoch: int) -> Any:
        """Return the response to the member's heartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="consumer", member_epoch=epoch, rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=["t"], topic_partitions=[],
        )  # fmt: skip
        return await self.consumers.heartbeat(request, 0, "client", "/host", NO_PARTITIONS)

    def join(self, metadata: bytes = subscription("t")) -> JoinResult:
        """A member of the classic protocol."""

        async def work() -> JoinResult:
            protocols = (("range", metadata),)
            joined = await self.running.joined("g", protocols=protocols)
            if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
                joined = await self.running.joined("g", member_id=joined.member_id, protocols=protocols)
            return joined

        result: JoinResult = self.running.run(work())
        assert result.error is ErrorCode.NONE
        return result

    def leave(self, *members: JoinResult) -> list[ErrorCode]:
        """Members of the classic protocol, in one request."""
        leavers = [Leaver(member.member_id) for member in members]
        result: list[ErrorCode] = self.running.run(self.running.classic.leave("g", leavers))
        return result

    @property
    def members(self) -> set[str]:
        """Of a group of the consumer protocol."""
        (group,) = self.running.groups.groups()
        assert isinstance(group.membership, ConsumerMembership)
        return set(group.membership.group.members)

    def refuse(self, refuse: bool) -> None:
        """Refuse appends from now on, or accept them again."""
        (partition_groups,) = self.running.groups.all_partition_groups()
        refuse_appends(partition_groups.partition, refuse)


def no_bytes(*args: object) -> Any:
    """Take the place of what encodes records."""
    raise EncodeError("a field is too long")


def test_a_new_group_that_cannot_be_encoded_is_not_made(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Changing(start)
    with monkeypatch.context() as broken:
        broken.setattr(consumer_membership, "encoded", no_bytes)
        with pytest.raises(EncodeError):
            group.heartbeat(JOIN_EPOCH)
    assert not group.running.groups.groups()


def test_an_upgrade_that_cannot_be_encoded_is_undone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Changing(start)
    member = group.join()
    with monkeypatch.context() as broken:
        broken.setattr(consumer_membership, "encoded", no_bytes)
        with pytest.raises(EncodeError):
            group.heartbeat(JOIN_EPOCH)
    assert group.kind == "classic"
    assert group.running.classic.heartbeat("g", member.member_id, None, member.generation) is NONE
    assert group.heartbeat(JOIN_EPOCH).error_code == NONE
    assert group.kind == "consumer"
    group.running.groups.stop()


def test_an_empty_group_keeps_its_protocol_if_its_first_member_cannot_be_encoded(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(start)
    group.running.run(group.running.member_that_leaves("g"))
    with monkeypatch.context() as broken:
        broken.setattr(consumer_membership, "encoded", no_bytes)
        with pytest.raises(EncodeError):
            group.heartbeat(JOIN_EPOCH)
    assert group.in_log == {("classic", "Empty")}
    group.running.groups.stop()


def test_a_downgrade_that_cannot_be_encoded_is_undone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == NONE
    group.join()
    (membership,) = (each.membership for each in group.running.groups.groups())
    with monkeypatch.context() as broken:
        broken.setattr(ClassicGroup, "record", no_bytes)
        with pytest.raises(EncodeError):
            group.heartbeat(LEAVE_EPOCH)
    assert [each.membership for each in group.running.groups.groups()] == [membership]
    # Sessions go on, and who is late is fenced in time.
    assert membership.wake_at is not None
    group.running.groups.stop()


def test_an_upgrade_that_cannot_be_appended_is_undone(start: Start) -> None:
    group = Changing(start)
    group.join()
    group.refuse(True)
    with pytest.raises(CoordinatorNotAvailableError):
        group.heartbeat(JOIN_EPOCH)
    assert group.kind == "classic"
    group.refuse(False)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    assert group.kind == "consumer"
    group.running.groups.stop()


TOO_MANY = encode_subscription(ConsumerSubscription(topics=["t"] * 300_000))
TOO_LARGE = b"\xff" * (2 << 20)
"""More than a record can hold. It is no subscription, which is not even noticed."""


@pytest.mark.parametrize(
    ("metadata", "error"), [(TOO_MANY, GroupIdNotFoundError), (TOO_LARGE, UnknownServerError)], ids=["many", "large"]
)
def test_an_upgrade_of_members_that_tell_too_much(start: Start, metadata: bytes, error: type[Exception]) -> None:
    group = Changing(start)
    group.join(metadata)
    with pytest.raises(error):
        group.heartbeat(JOIN_EPOCH)
    assert group.kind == "classic"
    group.running.groups.stop()


def test_an_upgrade_counts_the_entries_of_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "MOST_ENTRIES", 20)
    subscribed = encode_subscription(ConsumerSubscription(topics=["t"] * 8))
    owned = [TopicPartitions(topic="t0", partitions=list(range(8)))]
    assigned = encode_assignment(ConsumerAssignment(assigned_partitions=owned))

    def classic(*assignments: bytes) -> ClassicGroup:
        members = [
            Member(f"m{number}", None, "c", "/h", 1000, 1000, "consumer", (("range", subscribed),), assignment)
            for number, assignment in enumerate(assignments)
        ]
        return ClassicGroup.of_consumers("g", 1, members, ClassicSettings(0, 10), str, Moment(0, 0))

    for group in (classic(b"", b""), classic(assigned)):
        assert upgraded(group, FakeTopics(8))
    for group in (classic(b"", b"", b""), classic(assigned, b"")):
        with pytest.raises(GroupIdNotFoundError, match="more than 20 topics and partitions"):
            upgraded(group, FakeTopics(8))


def test_an_upgrade_while_members_change_their_assignors() -> None:
    """The group still has the name of the assignor that one of them has given up."""
    subscribed = encode_subscription(ConsumerSubscription(topics=["t0"]))
    both = (("range", subscribed), ("sticky", subscribed))
    members = [Member(name, None, "c", "/h", 1000, 1000, "consumer", both) for name in ("m0", "m1")]
    group = ClassicGroup.of_consumers("g", 1, members, ClassicSettings(0, 10), str, Moment(0, 0))
    group.join(JoinRequest("m0", None, "c", "/h", 1000, 1000, "consumer", both[1:]), object(), Moment(0, 0))
    assert (group.state_name, group.protocol_name) == ("PreparingRebalance", "range")
    records, timers = upgraded(group, FakeTopics(8))
    assert records
    assert {timer.member_id for timer in timers} == {"m0", "m1"}


def test_a_member_id_that_was_given_out_keeps_no_group_classic(start: Start) -> None:
    """Its client has not joined, and may never do so."""
    group = Changing(start)
    given = group.running.run(group.running.joined("g", require_known_id=True))
    assert given.error is ErrorCode.MEMBER_ID_REQUIRED
    assert group.heartbeat(JOIN_EPOCH).error_code == NONE
    assert group.kind == "consumer"
    protocols = (("range", subscription("t")),)
    joined = group.running.run(group.running.joined("g", member_id=given.member_id, protocols=protocols))
    assert (joined.error, joined.member_id) == (NONE, given.member_id)
    assert group.members == {"consumer", given.member_id}
    group.running.groups.stop()


def test_an_upgrade_that_may_yet_be_replicated_holds(start: Start) -> None:
    group = Changing(start, offsets_commit_timeout_ms="1")
    group.join()
    group.running.hold_replication()
    with pytest.raises(CoordinatorNotAvailableError):
        group.heartbeat(JOIN_EPOCH)
    assert group.kind == "consumer"
    assert {kind for kind, _ in group.in_log} == {"consumer"}
    group.running.groups.stop()


def test_a_downgrade_that_cannot_be_appended_is_undone(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    group.join()
    (membership,) = (each.membership for each in group.running.groups.groups())
    group.refuse(True)
    with pytest.raises(CoordinatorNotAvailableError):
        group.heartbeat(LEAVE_EPOCH)
    assert [each.membership for each in group.running.groups.groups()] == [membership]
    # Sessions go on, and who is late is fenced in time.
    assert membership.wake_at is not None
    group.refuse(False)
    assert group.heartbeat(LEAVE_EPOCH).error_code == ErrorCode.NONE
    assert group.kind == "classic"
    assert {kind for kind, _ in group.in_log} == {"classic"}
    group.running.groups.stop()


def join_with_much(group: Changing) -> list[JoinResult]:
    """Let the member of the consumer protocol join, and two others, whose subscriptions fill more than one batch."""
    assert group.heartbeat(JOIN_EPOCH).error_code == NONE
    chance = Random(7)
    subscribed = [ConsumerSubscription(topics=["t"], user_data=chance.randbytes(600_000)) for _ in range(2)]
    return [group.join(encode_subscription(each)) for each in subscribed]


@pytest.mark.parametrize("codec", ["0", "1"], ids=["plain", "compressed"])
def test_a_group_that_is_too_large_as_a_classic_one_stays(
    start: Start, caplog: pytest.LogCaptureFixture, codec: str
) -> None:
    """Its members have a record each, but a classic group has one in all."""
    group = Changing(start, offsets_topic_compression_codec=codec)
    members = join_with_much(group)
    if codec == "1":
        # How large the compressed record is turns out only when it is appended.
        with pytest.raises(UnknownServerError):
            group.heartbeat(LEAVE_EPOCH)
    assert group.heartbeat(LEAVE_EPOCH).error_code == NONE
    assert group.members == {member.member_id for member in members}
    assert "group g stays one of the consumer protocol" in caplog.text
    assert {kind for kind, _ in group.in_log} == {"consumer"}
    group.running.groups.stop()


def test_a_group_that_was_too_large_becomes_classic_when_its_log_takes_larger_batches(start: Start) -> None:
    group = Changing(start)
    join_with_much(group)
    assert group.heartbeat(LEAVE_EPOCH).error_code == NONE
    assert group.kind == "consumer"
    (partition_groups,) = group.running.groups.all_partition_groups()
    log = partition_groups.partition.log
    log.config = log.config.with_changes(max_message_bytes=4 << 20)
    assert group.heartbeat(JOIN_EPOCH).error_code == NONE
    assert group.heartbeat(LEAVE_EPOCH).error_code == NONE
    assert group.kind == "classic"
    assert {kind for kind, _ in group.in_log} == {"classic"}
    group.running.groups.stop()


def test_members_that_leave_together_while_that_cannot_be_appended_stay(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    first, second = group.join(), group.join()
    everybody = {"consumer", first.member_id, second.member_id}
    group.refuse(True)
    with pytest.raises(CoordinatorNotAvailableError):
        group.leave(first, second)
    assert group.members == everybody
    group.refuse(False)
    assert {kind for kind, _ in group.in_log} == {"consumer"}
    assert group.members == everybody
    assert group.leave(first, JoinResult("nobody"), second) == [NONE, ErrorCode.UNKNOWN_MEMBER_ID, NONE]
    assert group.members == {"consumer"}
    assert {kind for kind, _ in group.in_log} == {"consumer"}
    assert group.members == {"consumer"}
    group.running.groups.stop()


def test_a_member_is_told_that_it_left_once_that_is_stored(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    member = group.join()
    release = group.running.hold_replication()

    async def work() -> None:
        leaving = asyncio.ensure_future(group.running.classic.leave("g", [Leaver(member.member_id)]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert group.members == {"consumer"}
        assert not leaving.done()
        release()
        assert await leaving == [NONE]

    group.running.run(work())
    group.running.groups.stop()


def test_a_member_that_left_at_a_moved_coordinator_asks_again(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    member = group.join()
    group.running.hold_replication()

    async def work() -> None:
        leaving = asyncio.ensure_future(group.running.classic.leave("g", [Leaver(member.member_id)]))
        await asyncio.sleep(0)
        group.running.groups.stop()
        with pytest.raises(NotCoordinatorError):
            await leaving

    group.running.run(work())


def test_the_last_member_that_leaves_a_moved_coordinator_asks_again(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    group.join()
    group.running.hold_replication()

    async def work() -> None:
        leaving = asyncio.ensure_future(group.sent(LEAVE_EPOCH))
        await asyncio.sleep(0)
        assert group.kind == "classic"
        group.running.groups.stop()
        with pytest.raises(NotCoordinatorError):
            await leaving

    group.running.run(work())


def test_the_last_member_leaves_a_group_that_is_upgraded_again(start: Start) -> None:
    group = Changing(start)
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    group.join()
    release = group.running.hold_replication()

    async def work() -> None:
        leaving = asyncio.ensure_future(group.sent(LEAVE_EPOCH))
        await asyncio.sleep(0)
        assert group.kind == "classic"
        joining = asyncio.ensure_future(group.sent(JOIN_EPOCH))
        await asyncio.sleep(0)
        assert group.kind == "consumer"
        assert not leaving.done()
        release()
        assert (await leaving).member_epoch == LEAVE_EPOCH
        assert (await joining).error_code == NONE

    group.running.run(work())
    group.running.groups.stop()


def test_the_last_member_that_leaves_learns_of_no_timeout(start: Start) -> None:
    """Clients send the heartbeat again after this error."""
    group = Changing(start, offsets_commit_timeout_ms="1")
    assert group.heartbeat(JOIN_EPOCH).error_code == ErrorCode.NONE
    group.join()
    group.running.hold_replication()
    with pytest.raises(CoordinatorNotAvailableError):
        group.heartbeat(LEAVE_EPOCH)
    assert group.kind == "classic"
    group.running.groups.stop()
