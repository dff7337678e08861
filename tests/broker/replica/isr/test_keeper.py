"""Changes of the ISR that a leader proposes, and its reaction to the answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.replica.isr.keeper import Answer, IsrDecision, IsrKeeper, IsrProposal
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchRequest, ReplicaState
from tests.broker.replica.in_process import InProcess, with_broker
from tests.broker.replica.support import FOLLOWER, fetched, request
from tests.support.wire import batch, produce_request


class Asked:
    """Keeps proposals until the test answers."""

    def __init__(self) -> None:
        self.proposals: list[IsrProposal] = []
        self.looks: list[Callable[[IsrDecision | None], None]] = []
        self.are_open: list[Callable[[], bool]] = []
        self._answers: list[Answer] = []

    def submit(self, proposal: IsrProposal, answer: Answer, is_open: Callable[[], bool]) -> None:
        self.proposals.append(proposal)
        self.are_open.append(is_open)
        self._answers.append(answer)

    def look(self, proposal: IsrProposal, answer: Callable[[IsrDecision | None], None]) -> None:
        self.looks.append(answer)

    def answer(self, answer: IsrDecision | ErrorCode) -> None:
        self._answers.pop(0)(answer)


async def led(broker: InProcess, isr: tuple[int, ...]) -> tuple[Partition, Asked, IsrKeeper]:
    asked = Asked()
    keeper = IsrKeeper(broker.server.replicas, asked)
    broker.server.replicas.alive = frozenset({0, FOLLOWER})
    partition = await broker.create_topic("t")
    broker.assign(partition, leader_epoch=1, replicas=(0, FOLLOWER), isr=isr, partition_epoch=5)
    return partition, asked, keeper


async def produce(broker: InProcess, value: bytes = b"a") -> None:
    await (await broker.connect()).exchange(produce_request("t", {0: batch([value])}, 1), 9)


def test_a_follower_that_has_caught_up_joins(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, keeper = await led(broker, (0,))
        follower = await broker.connect()
        await produce(broker)
        await fetched(follower, request(0))
        assert not asked.proposals
        await fetched(follower, request(1))
        (proposal,) = asked.proposals
        assert (proposal.isr, proposal.leader_epoch, proposal.partition_epoch) == ((0, FOLLOWER), 1, 5)
        assert proposal.reason == f"{FOLLOWER} has caught up: its log ends at 1, the high watermark is 1"
        await fetched(follower, request(1))
        assert len(asked.proposals) == 1, "one at a time"
        asked.answer(IsrDecision(0, 1, 6, (0, FOLLOWER)))
        assert partition.isr == {0, FOLLOWER}
        assert partition.leading is not None
        assert partition.leading.partition_epoch == 6
        assert (keeper.expansions, keeper.shrinks) == (1, 0)

    with_broker(tmp_path, work)


def test_a_proposal_says_in_which_life_its_members_fetched(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, _ = await led(broker, (0,))
        follower = await broker.connect()
        await produce(broker)

        def of_life(epoch: int) -> FetchRequest:
            made = request(1, replica=-1)
            made.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=epoch)
            assert partition.log.topic_id is not None
            made.topics[0].topic_id = partition.log.topic_id
            return made

        assert (await fetched(follower, of_life(71), 15)).error_code == 0
        (proposal,) = asked.proposals
        assert (proposal.isr, proposal.epochs[FOLLOWER]) == ((0, FOLLOWER), 71)
        stale = await fetched(follower, of_life(70), 15)
        assert stale.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(tmp_path, work)


def test_a_broker_that_is_not_alive_does_not_join_nor_hold_the_high_watermark_back(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, keeper = await led(broker, (0,))
        follower = await broker.connect()
        await fetched(follower, request(0))
        asked.answer(ErrorCode.INELIGIBLE_REPLICA)
        broker.server.replicas.alive = frozenset({0})
        await produce(broker)
        assert partition.high_watermark == 1
        await fetched(follower, request(1))
        assert len(asked.proposals) == 1
        keeper.check(partition)
        assert len(asked.proposals) == 1

    with_broker(tmp_path, work)


def test_followers_that_fell_behind_leave_and_records_are_acknowledged_then(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, keeper = await led(broker, (0, FOLLOWER))
        partition.max_lag_ms = -1
        follower = await broker.connect()
        await fetched(follower, request(0))
        await produce(broker)
        assert partition.high_watermark == 0
        keeper.check(partition)
        assert asked.proposals[0].isr == (0,)
        assert re.fullmatch(
            rf"{FOLLOWER} has not caught up for \d+ ms, lacks 1 records \(its log ends at 0\), and fetched \d+ ms "
            r"ago\. The log ends at 1, the high watermark is 0, replica.lag.time.max.ms is -1",
            asked.proposals[0].reason,
        )
        assert partition.high_watermark == 0, "the one that is to leave still counts"
        asked.answer(IsrDecision(0, 1, 6, (0,)))
        assert partition.high_watermark == 1
        assert keeper.shrinks == 1

    with_broker(tmp_path, work)


def test_a_leader_whose_log_is_offline_does_not_shrink_the_isr(tmp_path: Path) -> None:
    """Its followers cannot catch up, and may be needed to lead in its place."""

    async def work(broker: InProcess) -> None:
        partition, asked, keeper = await led(broker, (0, FOLLOWER))
        partition.max_lag_ms = -1
        await fetched(await broker.connect(), request(0))
        await produce(broker)
        partition.log.offline = "the test says so"
        keeper.check(partition)
        assert not asked.proposals
        assert partition.isr == {0, FOLLOWER}

    with_broker(tmp_path, work)


@pytest.mark.parametrize("answer", [IsrDecision(0, 1, 6, (0,)), ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_answer_to_a_leader_whose_log_went_offline_changes_nothing(
    tmp_path: Path, answer: IsrDecision | ErrorCode
) -> None:
    """With the ISR of itself alone, it would acknowledge records that only its failed disk has."""

    async def work(broker: InProcess) -> None:
        partition, asked, keeper = await led(broker, (0, FOLLOWER))
        partition.max_lag_ms = -1
        await fetched(await broker.connect(), request(0))
        await produce(broker)
        keeper.check(partition)
        (is_open,) = asked.are_open
        assert is_open()
        partition.log.offline = "the test says so"
        assert not is_open()
        asked.answer(answer)
        assert partition.isr == {0, FOLLOWER}
        assert partition.high_watermark == 0
        assert len(asked.proposals) == 1, "it is not proposed again"

    with_broker(tmp_path, work)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refusal_of_a_member_ends_the_proposal(tmp_path: Path, code: ErrorCode) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, _ = await led(broker, (0,))
        follower = await broker.connect()
        await fetched(follower, request(0))
        asked.answer(code)
        assert partition.leading is not None
        assert partition.leading.proposed is None
        await fetched(follower, request(0))
        assert len(asked.proposals) == 2, "it is proposed again"

    with_broker(tmp_path, work)


def test_an_error_that_says_nothing_is_asked_again_until_the_role_changes(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, _ = await led(broker, (0,))
        await fetched(await broker.connect(), request(0))
        asked.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert asked.proposals[0] == asked.proposals[1]
        broker.assign(partition, leader_epoch=2, replicas=(0, FOLLOWER), isr=(0,), partition_epoch=6)
        asked.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert len(asked.proposals) == 2
        assert partition.isr == {0}

    with_broker(tmp_path, work)


def test_a_leader_that_missed_a_change_reads_it_and_goes_on(tmp_path: Path) -> None:
    """Apache Kafka's leaders wait for the controller's next word, which may never come (KAFKA-2729)."""

    async def work(broker: InProcess) -> None:
        partition, asked, _ = await led(broker, (0,))
        follower = await broker.connect()
        await fetched(follower, request(0))
        asked.answer(ErrorCode.INVALID_UPDATE_VERSION)
        asked.looks.pop()(IsrDecision(0, 1, 9, (0,)))
        await fetched(follower, request(0))
        assert asked.proposals[1].partition_epoch == 9
        asked.answer(ErrorCode.INVALID_UPDATE_VERSION)
        # Another leader was elected: only the controller says what this broker is now.
        asked.looks.pop()(IsrDecision(FOLLOWER, 2, 10, (FOLLOWER,)))
        await fetched(follower, request(0))
        assert len(asked.proposals) == 2
        assert partition.isr == {0}

    with_broker(tmp_path, work)


def test_a_state_that_cannot_be_read_is_read_again_while_the_proposal_is_open(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, asked, _ = await led(broker, (0,))
        follower = await broker.connect()
        await fetched(follower, request(0))
        asked.answer(ErrorCode.INVALID_UPDATE_VERSION)
        asked.looks.pop()(None)
        asked.looks.pop()(IsrDecision(0, 1, 9, (0,)))
        assert partition.leading is not None
        assert (partition.leading.proposed, partition.leading.partition_epoch) == (None, 9)
        await fetched(follower, request(0))
        asked.answer(ErrorCode.INVALID_UPDATE_VERSION)
        broker.assign(partition, leader_epoch=2, replicas=(0, FOLLOWER), isr=(0,), partition_epoch=10)
        asked.looks.pop()(None)
        assert not asked.looks

    with_broker(tmp_path, work)
