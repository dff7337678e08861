"""Tests without a broker: the member's states, positions, patterns, properties, and the properties of assignors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.consumer import (
    Assignor,
    Blacklist,
    ConsumerConfig,
    LogTruncationError,
    RebalanceProtocol,
    TopicFilter,
    Whitelist,
)
from kafkalog.client.consumer.assignors import BUILT_IN, CooperativeStickyAssignor, find_assignors
from kafkalog.client.consumer.classic.join import AssignorError, check_decision
from kafkalog.client.consumer.classic.member import HeartbeatTimer, Member, State
from kafkalog.client.consumer.classic.protocol import (
    Assignment,
    MalformedMemberDataError,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_collector import FetchCollector
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition, Truncation, find_truncation
from kafkalog.client.consumer.group.generation import Generation, Next
from kafkalog.client.consumer.subscription import FETCHES_AHEAD, PartitionState, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ConfigError
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, FencedLeaderEpochError, OffsetOutOfRangeError
from kafkalog.protocol.messages.offset_for_leader_epoch import EpochEndOffset
from kafkalog.records.batch import Record, encode_batch

TP = TopicPartition("t", 0)
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


def member() -> Member:
    """A member of generation 3."""
    made = Member()
    made.join_sent()
    made.joined(3, "m", "range")
    assert made.synced(made.generation)
    return made


def test_a_member_joins() -> None:
    made = Member()
    assert (made.beating, bool(made.rejoin)) == (False, True)
    made.join_sent()
    assert made.join_failed(ErrorCode.MEMBER_ID_REQUIRED, "given") is Next.AGAIN
    assert made.generation == Generation(-1, "given")
    made.join_sent()
    made.joined(1, "given", "range")
    assert (made.state, made.beating, bool(made.rejoin)) == (State.SYNCING, True, False)
    assert made.synced(made.generation)
    assert (made.state, made.rebalances, made.generation.valid) == (State.STABLE, 1, True)


@pytest.mark.parametrize(
    ("code", "todo"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Next.BACK_OFF),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.BACK_OFF),
        (ErrorCode.REBALANCE_IN_PROGRESS, Next.BACK_OFF),
        (ErrorCode.NOT_COORDINATOR, Next.FIND),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Next.FAIL),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Next.FAIL),
        (ErrorCode.FENCED_INSTANCE_ID, Next.FAIL),
    ],
)
def test_a_refused_join(code: ErrorCode, todo: Next) -> None:
    made = member()
    made.request_rejoin("a test")
    made.join_sent()
    assert made.join_failed(code, "") is todo
    assert made.state is State.UNJOINED
    assert made.rejoin is not None
    assert made.generation.valid is (code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID))
    assert made.fenced is (code == ErrorCode.FENCED_INSTANCE_ID)


@pytest.mark.parametrize(
    ("code", "todo", "generation"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, Next.AGAIN, Generation(4, "m", "range")),
        (ErrorCode.ILLEGAL_GENERATION, Next.BACK_OFF, Generation(-1, "m")),
        (ErrorCode.UNKNOWN_MEMBER_ID, Next.BACK_OFF, Generation()),
        (ErrorCode.NOT_COORDINATOR, Next.FIND, Generation(4, "m", "range")),
        (ErrorCode.FENCED_INSTANCE_ID, Next.FAIL, Generation()),
    ],
)
def test_a_refused_sync(code: ErrorCode, todo: Next, generation: Generation) -> None:
    made = member()
    made.join_sent()
    made.joined(4, "m", "range")
    assert made.sync_failed(code) is todo
    assert made.generation == generation
    assert made.state is State.UNJOINED
    assert made.rejoin is not None


def test_refused_heartbeats() -> None:
    made = member()
    assert made.heartbeat_failed(ErrorCode.NOT_COORDINATOR, made.generation) is Next.FIND
    assert made.heartbeat_failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, made.generation) is Next.BACK_OFF
    assert made.rejoin is None
    assert made.heartbeat_failed(ErrorCode.UNKNOWN_MEMBER_ID, Generation(2, "m", "range")) is Next.REJOIN
    assert made.generation.valid, "that was of another generation"
    assert made.heartbeat_failed(ErrorCode.REBALANCE_IN_PROGRESS, made.generation) is Next.REJOIN
    assert made.rejoin is not None
    assert made.heartbeat_failed(ErrorCode.ILLEGAL_GENERATION, made.generation) is Next.REJOIN
    assert made.generation == Generation(-1, "m")
    made = member()
    assert made.heartbeat_failed(ErrorCode.FENCED_INSTANCE_ID, made.generation) is Next.FAIL
    assert not made.generation.valid
    assert made.fenced
    made.leave("the application unsubscribed")
    assert not made.fenced


def test_an_assignment_that_comes_too_late() -> None:
    made = Member()
    made.join_sent()
    made.joined(3, "m", "range")
    generation = made.generation
    made.heartbeat_failed(ErrorCode.UNKNOWN_MEMBER_ID, generation)
    assert not made.synced(generation)
    assert made.state is State.UNJOINED


def test_refused_commits() -> None:
    made = member()
    generation = made.generation
    assert made.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, generation)
    assert made.rejoin is not None
    made.join_sent()
    made.joined(4, "m", "range")
    assert made.commit_refused(ErrorCode.ILLEGAL_GENERATION, generation), "the rebalance is not over"
    assert made.synced(made.generation)
    assert not made.commit_refused(ErrorCode.ILLEGAL_GENERATION, generation)
    assert made.generation.valid
    assert not made.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, made.generation)
    assert not made.generation.valid
    made = member()
    assert not made.commit_fenced(Generation(2, "m", "range")), "that was of another generation"
    assert made.commit_fenced(made.generation)
    assert (made.state, made.generation.valid, made.fenced) == (State.UNJOINED, False, True)


def test_when_heartbeats_are_due() -> None:
    timer = HeartbeatTimer(session_timeout=10, interval=3, max_poll_interval=30)
    timer.reset(100)
    assert timer.due(101) == 2
    timer.note_sent(103)
    timer.note_failed(103, 0.5)
    assert timer.due(103) == 0.5
    timer.note_sent(103.5)
    timer.note_received(103.6)
    assert timer.due(103.5) == 3
    assert not timer.session_expired(113.6)
    assert timer.session_expired(113.7)
    assert not timer.poll_expired(130)
    timer.note_poll(120)
    assert not timer.poll_expired(150)
    assert timer.poll_expired(150.1)


def test_positions_of_partitions() -> None:
    subscription = SubscriptionState()
    subscription.assign_manually([TP])
    state = subscription.state(TP)
    assert state.lost
    state.look_up(-2)
    assert not state.lost
    assert not state.fetchable(0)
    version = state.version
    state.move(FetchPosition(5))
    assert state.version > version, "an answer to an older question is told by it"
    assert state.fetchable(0)
    state.retry_at = 1.0
    assert not state.fetchable(0)
    state.paused = True
    assert not state.fetchable(2)
    assert subscription.consumed() == {TP: FetchPosition(5)}
    state.high_watermark = 9
    assert state.lag == 4
    subscription.assign_manually([TP, TopicPartition("t", 1)])
    assert subscription.state(TP) is state
    assert FETCHES_AHEAD >= 1
    with pytest.raises(ValueError, match="u-0 is not assigned"):
        subscription.state(TopicPartition("u", 0))


def test_an_error_waits_for_its_turn() -> None:
    """Records of other partitions that are there do not swallow what is wrong with one."""
    config = ConsumerConfig.from_dict(SERVERS).client
    subscription = SubscriptionState()
    other = TopicPartition("t", 1)
    subscription.assign_manually([other, TP])
    batch = memoryview(encode_batch([Record(0, 0, None, b"v", ())]))
    subscription.state(other).move(FetchPosition(0))
    subscription.state(other).completed_fetches.append(CompletedFetch(other, 0, FetchedRecords(batch, 1, 1, 0, []), 0))
    subscription.state(TP).error = OffsetOutOfRangeError("beyond the end")
    taking = FetchCollector(config, subscription, Monitor(), lambda: None)
    assert [record.partition for record in taking.take(10)[0]] == [1]
    taken, error = taking.take(10)
    assert not taken
    assert isinstance(error, OffsetOutOfRangeError)
    assert taking.take(10) == ([], None)


class Late(PartitionState):
    """A partition in which the fetcher notes an error right after the error was looked for."""

    late: Exception | None = None

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "error" and self.late is not None:
            self.error, self.late = self.late, None
        return found


def test_an_error_that_comes_while_records_are_taken_is_kept() -> None:
    config = ConsumerConfig.from_dict(SERVERS).client
    subscription = SubscriptionState()
    other = TopicPartition("t", 1)
    subscription.assign_manually([other])
    batch = memoryview(encode_batch([Record(0, 0, None, b"v", ())]))
    subscription.state(other).move(FetchPosition(0))
    subscription.state(other).completed_fetches.append(CompletedFetch(other, 0, FetchedRecords(batch, 1, 1, 0, []), 0))
    late = subscription.partitions[TP] = Late(TP)
    late.late = OffsetOutOfRangeError("beyond the end")
    taking = FetchCollector(config, subscription, Monitor(), lambda: None)
    assert [record.partition for record in taking.take(10)[0]] == [1]
    taken, error = taking.take(10)
    assert not taken
    assert isinstance(error, OffsetOutOfRangeError)


class Interrupted(PartitionState):
    """A partition at which a signal comes, once there is `signal` to raise."""

    signal: Exception | None = None

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == "error" and self.signal is not None:
            raise self.signal
        return found


def test_the_error_of_a_signal_names_the_partition_that_was_looked_into_last() -> None:
    """Also where partitions were looked into by an earlier call, as those that fill one `poll` are."""
    subscription = SubscriptionState()
    other = TopicPartition("t", 1)
    subscription.assign_manually([other])
    first = subscription.partitions[TP] = Interrupted(TP)
    subscription.to_end_of_line(other)
    taking = FetchCollector(ConsumerConfig.from_dict(SERVERS).client, subscription, Monitor(), lambda: None)
    assert taking.take(10) == ([], None)
    first.signal = TimeoutError("alarm")
    with pytest.raises(TimeoutError) as failure:
        taking.take(10)
    assert failure.value.__notes__ == ["in partition t-0, at offset ?"]


def test_a_truncation_is_told_until_a_seek() -> None:
    """And nothing of the partition is handed out, while others go on."""
    config = ConsumerConfig.from_dict(SERVERS).client
    subscription = SubscriptionState()
    other = TopicPartition("t", 1)
    subscription.assign_manually([TP, other])
    batch = memoryview(encode_batch([Record(0, 0, None, b"v", ())]))
    subscription.state(other).move(FetchPosition(0))
    subscription.state(TP).move(FetchPosition(5, 1))
    subscription.state(TP).error = LogTruncationError({TP: 5}, {})
    taking = FetchCollector(config, subscription, Monitor(), lambda: None)
    taken, error = taking.take(10)
    assert not taken
    assert "t-0 at offset 5" in str(error)
    subscription.state(other).completed_fetches.append(CompletedFetch(other, 0, FetchedRecords(batch, 1, 1, 0, []), 0))
    assert [record.partition for record in taking.take(10)[0]] == [1]
    assert isinstance(taking.take(10)[1], LogTruncationError)
    with pytest.raises(LogTruncationError):
        taking.take_arrow(("offset",))
    assert not subscription.state(TP).fetchable(0)
    subscription.state(TP).move(FetchPosition(3, 1))
    assert taking.take(10) == ([], None)
    assert subscription.state(TP).fetchable(0)


def test_topics_by_expression() -> None:
    topics = ["orders", "orders-eu", "clicks", "xorders"]
    assert TopicFilter.of("orders.*").select(topics) == {"orders", "orders-eu"}
    assert Whitelist('"orders, clicks"').select(topics) == {"orders", "clicks"}
    assert Blacklist("orders.*,clicks").select(topics) == {"xorders"}
    with pytest.raises(ConfigError, match="no regular expression"):
        Whitelist("(")
    subscription = SubscriptionState()
    subscription.subscribe_pattern(Blacklist("clicks"))
    assert subscription.found(topics)
    assert not subscription.found(topics)
    assert subscription.topics == {"orders", "orders-eu", "xorders"}


def test_the_leaders_answer() -> None:
    position = FetchPosition(10, 3)
    assert find_truncation(TP, position, EpochEndOffset(leader_epoch=3, end_offset=10)) is None
    assert find_truncation(TP, position, EpochEndOffset(leader_epoch=2, end_offset=7)) == Truncation(
        FetchPosition(7, 2)
    )
    assert find_truncation(TP, position, EpochEndOffset(leader_epoch=-1, end_offset=-1)) == Truncation(None)
    with pytest.raises(FencedLeaderEpochError, match="t-0 at offset 10"):
        find_truncation(TP, position, EpochEndOffset(error_code=ErrorCode.FENCED_LEADER_EPOCH))


class Custom(Assignor):
    """An application's own: everything to the first."""

    name = "custom"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, layout: Any, members: Mapping[str, Subscription]) -> Mapping[str, Sequence[TopicPartition]]:
        return {min(members): [TopicPartition(topic, n) for topic in layout for n in range(len(layout[topic]))]}


def test_properties() -> None:
    config = ConsumerConfig.from_dict({**SERVERS, "group.id": "g"})
    assert [each.name for each in config.assignors] == ["range", "cooperative-sticky"]
    assert (config.enable_auto_commit, config.session_timeout, config.max_poll_interval) == (True, 45.0, 300.0)
    assert not ConsumerConfig.from_dict(SERVERS).enable_auto_commit
    java = "org.apache.kafka.clients.consumer.StickyAssignor, roundrobin"
    config = ConsumerConfig.from_dict({**SERVERS, "partition.assignment.strategy": java, "x.y": 1})
    assert [each.name for each in config.assignors] == ["sticky", "roundrobin"]
    assert config.unknown == {"x.y": "1"}
    assert find_assignors([Custom, "cooperative-sticky"])[0].name == "custom"
    for bad in (
        {"partition.assignment.strategy": "best"},
        {"partition.assignment.strategy": "range,range"},
        {"partition.assignment.strategy": [Custom, "range"]},
        {"heartbeat.interval.ms": 45000},
        {"group.protocol": "next"},
        {"group.remote.assignor": "uniform"},
        {"partition.assignment.strategy": "range", "group.protocol": "consumer"},
        {"session.timeout.ms": 45000, "group.protocol": "consumer"},
        {"heartbeat.interval.ms": 3000, "group.protocol": "Consumer"},
        {"group.id": " "},
        {"value.deserializer": "json"},
        {"interceptor.classes": [object()]},
    ):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            ConsumerConfig.from_dict({**SERVERS, **bad})
    config = ConsumerConfig.from_dict({**SERVERS, "group.protocol": "CONSUMER", "group.remote.assignor": "range"})
    assert (config.group_protocol, config.group_remote_assignor) == ("consumer", "range")


def test_what_an_assignor_may_not_decide() -> None:
    members = {"a": Subscription(("t",), owned=(TP,)), "b": Subscription(("t",))}
    eager, cooperative = RebalanceProtocol
    check_decision(Custom(), {"b": [TP]}, members, eager)
    with pytest.raises(AssignorError, match="still own"):
        check_decision(Custom(), {"b": [TP]}, members, cooperative)
    with pytest.raises(AssignorError, match="no members"):
        check_decision(Custom(), {"c": [TP]}, members, eager)


names = st.text("abc", min_size=1, max_size=3)
partitions = st.builds(TopicPartition, names, st.integers(0, 4))


@given(
    topics=st.lists(names, unique=True),
    data=st.none() | st.binary(),
    owned=st.lists(partitions, unique=True),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
)
def test_member_data_round_trips(
    topics: list[str], data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    told = Subscription(tuple(sorted(topics)), data, tuple(sorted(owned)), generation, rack)
    assert decode_subscription(encode_subscription(told)) == told
    newer = b"\0\x09" + encode_subscription(told)[2:] + b"of a later version"
    assert decode_subscription(newer) == told
    given_ = Assignment(tuple(sorted(owned)), data)
    assert decode_assignment(encode_assignment(given_)) == given_


@given(st.binary(max_size=60))
def test_hostile_member_data(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except MalformedMemberDataError:
            continue


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.name)
def test_what_assignors_promise(kind: type[Assignor]) -> None:
    partitions_of_topic = st.lists(st.just(frozenset[str]()), min_size=1, max_size=6)
    layouts = st.dictionaries(names, partitions_of_topic, min_size=1, max_size=3)

    @given(layout=layouts, count=st.integers(1, 6), data=st.data())
    def check(layout: dict[str, list[frozenset[str]]], count: int, data: st.DataObject) -> None:
        some = st.lists(st.sampled_from(sorted(layout)), min_size=1, unique=True)
        wanted = {f"m{n}": data.draw(some) for n in range(count)}
        members = {name: Subscription(tuple(topics)) for name, topics in wanted.items()}
        reachable = {topic for topics in wanted.values() for topic in topics}
        decided = kind().assign({topic: layout[topic] for topic in reachable}, members)
        everything = [tp for each in decided.values() for tp in each]
        assert len(everything) == len(set(everything)), "nothing twice"
        assert set(everything) == {TopicPartition(t, n) for t in reachable for n in range(len(layout[t]))}
        for name, each in decided.items():
            assert {tp.topic for tp in each} <= set(wanted[name])

    check()


def test_a_sticky_group_settles() -> None:
    """Joining again with what was decided changes nothing, in one step where all keep what they have."""
    layout = {"t": [frozenset[str]()] * 7}
    members = {name: Subscription(("t",)) for name in "abc"}
    decided = CooperativeStickyAssignor().assign(layout, members)
    for count in (3, 2, 3):
        kept = {n: Subscription(("t",), owned=tuple(decided.get(n, ())), generation_id=1) for n in "abc"[:count]}
        first = CooperativeStickyAssignor().assign(layout, kept)
        again = {n: Subscription(("t",), owned=tuple(first[n]), generation_id=2) for n in first}
        decided = CooperativeStickyAssignor().assign(layout, again)
        assert sorted(tp.partition for each in decided.values() for tp in each) == list(range(7))
        assert max(map(len, decided.values())) - min(map(len, decided.values())) <= 1
        for name, before in again.items():
            assert set(before.owned) <= set(decided[name])
