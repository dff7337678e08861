"""Requests to the controller to change ISRs; a script plays the controller's link."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from broker.member.isr.alter_isr import RETRY_S, AlterIsr
from broker.metadata.model import BrokerRegistration
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkBrokenError
from broker.replica.isr.keeper import IsrDecision, IsrProposal
from broker.runtime import Runtime
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.workers import SimulatedWorkers
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

ID = uuid.UUID(int=8)
Reply = Callable[[AlterPartitionRequest, int], AlterPartitionResponse]


class Controllers:
    """Brokers that answer one after the other by a script.

    Attributes:
        asked: which broker was asked what, in which version.
        asked_at: when, by the loop's clock.
    """

    def __init__(self, *script: Reply | Exception, newest: int = 3) -> None:
        self._script = list(script)
        self._newest = newest
        self.asked: list[tuple[int, int, AlterPartitionRequest]] = []
        self.asked_at: list[float] = []
        self.closed: list[int] = []

    def connect(self, broker: BrokerRegistration, purpose: str) -> Link:
        assert purpose == "alter-partition"
        return cast(Link, ScriptedLink(self, broker.broker_id))

    def reply(self, broker: int, message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        self.asked.append((broker, version, message))
        self.asked_at.append(asyncio.get_running_loop().time())
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step(message, version)

    @property
    def newest(self) -> int:
        return self._newest


class ScriptedLink:
    def __init__(self, controllers: Controllers, broker: int) -> None:
        self._controllers = controllers
        self._broker = broker

    async def connect(self) -> None: ...

    def version_of(self, kind: Any, max_version: int | None = None) -> int:
        return self._controllers.newest if max_version is None else min(max_version, self._controllers.newest)

    async def request(self, message: Any, *, max_version: int, min_version: int) -> AlterPartitionResponse:
        assert max_version == min_version
        await asyncio.sleep(0.01)
        return self._controllers.reply(self._broker, message, max_version)

    async def close(self) -> None:
        self._controllers.closed.append(self._broker)


def accepted(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    """Agree to everything."""
    response = AlterPartitionResponse()
    for topic in message.topics:
        data = AlterPartitionResponse.TopicData(
            topic_name=topic.topic_name if version < 2 else "",
            topic_id=topic.topic_id if version >= 2 else uuid.UUID(int=0),
        )
        for each in topic.partitions:
            isr = [member.broker_id for member in each.new_isr_with_epochs] if version >= 3 else each.new_isr
            data.partitions.append(
                AlterPartitionResponse.TopicData.PartitionData(
                    partition_index=each.partition_index,
                    leader_id=1,
                    leader_epoch=each.leader_epoch,
                    isr=isr,
                    partition_epoch=each.partition_epoch + 1,
                )
            )
        response.topics.append(data)
    return response


def failed(code: ErrorCode) -> Reply:
    return lambda message, version: AlterPartitionResponse(error_code=code)


def proposal(index: int = 0, topic_id: uuid.UUID | None = ID) -> IsrProposal:
    return IsrProposal("t", index, topic_id, 4, 7, (1, 2))


def make_store(
    loop: VirtualLoop,
    controllers: Controllers,
    controller: Callable[[], int | None] = lambda: 1,
    broker_epoch: Callable[[], int] = lambda: 33,
) -> AlterIsr:
    chance = random.Random(1)
    runtime = cast(Runtime, type("OfLoop", (), {"loop": loop, "workers": SimulatedWorkers(loop, chance)})())

    def registration() -> BrokerRegistration | None:
        found = controller()
        return None if found is None else BrokerRegistration(found, ())

    zookeeper = SimulatedSession(SimulatedEnsemble(loop, chance), 6)
    return AlterIsr(runtime, 1, broker_epoch, registration, controllers.connect, zookeeper)


def ask(
    controllers: Controllers,
    *proposals: IsrProposal,
    controller: Callable[[], int | None] = lambda: 1,
    breaks_at: int = -1,
) -> list[IsrDecision | ErrorCode]:
    """Propose all of these at once; return the answers. Taking that number `breaks_at` fails."""

    async def main(loop: VirtualLoop) -> list[IsrDecision | ErrorCode]:
        store = make_store(loop, controllers, controller)
        answers: list[IsrDecision | ErrorCode] = []

        def take(answer: IsrDecision | ErrorCode) -> None:
            answers.append(answer)
            if len(answers) == breaks_at + 1:
                raise RuntimeError("a defect")

        for each in proposals:
            store.submit(each, take)
        while len(answers) < len(proposals):
            await asyncio.sleep(0.01)
            assert loop.time() < 60
        await store.close()
        return answers

    return virtual_time.run(main)


@pytest.mark.parametrize(("newest", "topic_id", "version"), [(3, ID, 3), (2, ID, 2), (1, ID, 1), (3, None, 1)])
def test_the_version_is_one_that_the_controller_knows(newest: int, topic_id: uuid.UUID | None, version: int) -> None:
    controllers = Controllers(accepted, newest=newest)
    assert ask(controllers, proposal(topic_id=topic_id)) == [IsrDecision(1, 4, 8, (1, 2))]
    ((_, used, message),) = controllers.asked
    assert used == version
    assert (message.broker_id, message.broker_epoch) == (1, 33)
    assert controllers.closed == [1]


def test_members_have_the_epochs_of_their_last_fetches() -> None:
    """This broker has that of its registration; -1 stands for one that is not known."""
    controllers = Controllers(accepted)
    known = IsrProposal("t", 0, ID, 4, 7, (1, 2, 3), epochs={2: 22})
    ask(controllers, known)
    ((_, _, message),) = controllers.asked
    members = message.topics[0].partitions[0].new_isr_with_epochs
    assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, 33), (2, 22), (3, -1)]


def test_what_waits_goes_in_one_request() -> None:
    controllers = Controllers(accepted)
    assert len(ask(controllers, proposal(0), proposal(1), proposal(2))) == 3
    assert len(controllers.asked) == 1


def test_it_is_sent_again_until_a_controller_answers() -> None:
    controllers = Controllers(LinkBrokenError("gone"), failed(ErrorCode.NOT_CONTROLLER), accepted)
    alive = iter([None, 1, 1, 2])
    assert ask(controllers, proposal(), controller=lambda: next(alive)) == [IsrDecision(1, 4, 8, (1, 2))]
    assert [broker for broker, _, _ in controllers.asked] == [1, 1, 2]


def test_it_goes_on_after_what_nobody_has_foreseen() -> None:
    controllers = Controllers(RuntimeError("a defect"), failed(cast(ErrorCode, 9999)), accepted)
    assert ask(controllers, proposal()) == [IsrDecision(1, 4, 8, (1, 2))]


def test_an_answer_that_cannot_be_taken_leaves_the_others_alone() -> None:
    assert len(ask(Controllers(accepted), proposal(0), proposal(1), proposal(2), breaks_at=0)) == 3


def test_a_partition_that_is_missing_in_the_answer_is_sent_again() -> None:
    def first_alone(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        response = accepted(message, version)
        del response.topics[0].partitions[1:]
        return response

    controllers = Controllers(first_alone, accepted)
    assert len(ask(controllers, proposal(0), proposal(1))) == 2
    assert [len(message.topics[0].partitions) for _, _, message in controllers.asked] == [2, 1]


def test_a_controller_that_answers_nothing_is_asked_again_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    controllers = Controllers(*[lambda message, version: AlterPartitionResponse()] * 3, accepted)
    assert len(ask(controllers, proposal())) == 1
    assert len(controllers.asked) == 4
    assert min(after - before for before, after in pairwise(controllers.asked_at)) >= RETRY_S
    assert caplog.text.count("answers to none of the changes") == 3


def test_a_controller_that_goes_on_refusing_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "broker.member")
    refused = [*[failed(ErrorCode.NOT_CONTROLLER)] * 5, failed(ErrorCode.STALE_BROKER_EPOCH)]
    assert len(ask(Controllers(*refused, accepted), proposal())) == 1
    assert caplog.text.count("does not change ISRs at present: NOT_CONTROLLER") == 1
    assert caplog.text.count("does not change ISRs at present: STALE_BROKER_EPOCH") == 1


def test_what_a_leader_repeats_is_sent_after_a_pause() -> None:
    """ZooKeeper may refuse the controller's write for long."""

    def not_written(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        response = accepted(message, version)
        response.topics[0].partitions[0].error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return response

    controllers = Controllers(*[not_written] * 5, accepted)

    async def main(loop: VirtualLoop) -> None:
        store = make_store(loop, controllers)
        decided: asyncio.Future[IsrDecision] = loop.create_future()
        wanted = proposal()

        def answer(found: IsrDecision | ErrorCode) -> None:
            if isinstance(found, IsrDecision):
                decided.set_result(found)
            else:
                store.submit(wanted, answer)

        store.submit(wanted, answer)
        await decided
        await store.close()

    virtual_time.run(main)
    pauses = [after - before for before, after in pairwise(controllers.asked_at)]
    assert len(pauses) == 5
    assert min(pauses) >= RETRY_S


def test_an_answer_to_what_was_replaced_meanwhile_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    again: list[Callable[[], None]] = []

    def late(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        again.pop()()
        return accepted(message, version)

    async def main(loop: VirtualLoop) -> None:
        controllers = Controllers(late, accepted)
        store = make_store(loop, controllers)
        answers: list[tuple[str, IsrDecision | ErrorCode]] = []
        again.append(lambda: store.submit(proposal(), lambda answer: answers.append(("newer", answer))))
        store.submit(proposal(), lambda answer: answers.append(("older", answer)))
        while not answers:
            await asyncio.sleep(0.01)
            assert loop.time() < 60
        await store.close()
        assert answers == [("newer", IsrDecision(1, 4, 8, (1, 2)))]
        first, second = controllers.asked_at
        assert second - first < RETRY_S

    virtual_time.run(main)
    assert "answers to none" not in caplog.text


def test_an_error_of_one_partition_is_its_own() -> None:
    def mixed(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        response = accepted(message, version)
        response.topics[0].partitions[1].error_code = ErrorCode.INVALID_UPDATE_VERSION
        return response

    answers = ask(Controllers(mixed), proposal(0), proposal(1))
    assert answers == [IsrDecision(1, 4, 8, (1, 2)), ErrorCode.INVALID_UPDATE_VERSION]


def test_an_error_that_only_a_newer_controller_knows_is_that_of_its_partition_alone() -> None:
    def newer(message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        response = accepted(message, version)
        response.topics[0].partitions[0].error_code = 9999
        return response

    controllers = Controllers(newer)
    answers = ask(controllers, proposal(0), proposal(1))
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR, IsrDecision(1, 4, 8, (1, 2))]
    assert len(controllers.asked) == 1


def test_what_was_proposed_in_an_earlier_life_is_neither_sent_nor_answered() -> None:
    """Otherwise a replica could join the ISR for which the leader of the new life does not wait."""

    async def main(loop: VirtualLoop) -> None:
        controllers = Controllers(failed(ErrorCode.STALE_BROKER_EPOCH), accepted)
        epoch = 33
        store = make_store(loop, controllers, broker_epoch=lambda: epoch)
        answers: list[tuple[int, IsrDecision | ErrorCode]] = []
        store.submit(proposal(0), lambda answer: answers.append((0, answer)))
        while not controllers.asked:
            await asyncio.sleep(0.001)
        epoch = 34
        store.submit(proposal(1), lambda answer: answers.append((1, answer)))
        while not answers:
            await asyncio.sleep(0.01)
            assert loop.time() < 60
        await asyncio.sleep(1)
        await store.close()
        assert answers == [(1, IsrDecision(1, 4, 8, (1, 2)))]
        sent = [(message.broker_epoch, len(message.topics[0].partitions)) for _, _, message in controllers.asked]
        assert sent == [(33, 1), (34, 1)]

    virtual_time.run(main)


def test_what_no_leader_waits_for_any_more_is_not_sent() -> None:
    """A controller that is found only then would make a leader without a log the only member of the ISR."""

    async def main(loop: VirtualLoop) -> None:
        controllers = Controllers(accepted)
        known: list[int] = []
        store = make_store(loop, controllers, lambda: known[0] if known else None)
        answers: list[tuple[int, IsrDecision | ErrorCode]] = []
        waits = [True, True]
        store.submit(proposal(0), lambda answer: answers.append((0, answer)), lambda: waits[0])
        store.submit(proposal(1), lambda answer: answers.append((1, answer)), lambda: waits[1])
        await asyncio.sleep(1)
        waits[0] = False
        known.append(1)
        while not answers:
            await asyncio.sleep(0.01)
            assert loop.time() < 60
        await asyncio.sleep(1)
        await store.close()
        assert answers == [(1, IsrDecision(1, 4, 8, (1, 2)))]
        ((_, _, message),) = controllers.asked
        assert [each.partition_index for each in message.topics[0].partitions] == [1]

    virtual_time.run(main)
