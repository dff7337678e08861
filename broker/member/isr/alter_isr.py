"""Ask the controller to change an ISR (AlterPartition, KIP-497), as Kafka's `DefaultAlterPartitionManager`.

One request is under way at a time, with all changes that wait. It is sent again until there is an answer, to whichever
broker is the controller then. A change that was proposed in an earlier life of this broker is dropped: its leader has
given up its role, and would not wait for a replica that the controller lets in. So is one that its leader does not wait
for any more. In Kafka, which keeps those, a leader without a log may yet become the only member of an ISR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.cluster_links import Connect, NoListenerError
from broker.member.isr.isr_nodes import read_state
from broker.metadata.model import NO_TOPIC_ID, BrokerRegistration
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError
from broker.replica.isr.keeper import Answer, IsrDecision, IsrProposal
from broker.replica.isr.rules import UNKNOWN_BROKER_EPOCH
from broker.runtime import Runtime
from broker.zookeeper.interface import ZooKeeper
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError
from kafkalog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse, BrokerState

logger = logging.getLogger(__name__)

RETRY_S = 0.05
"""The pause after an attempt that answers no proposal, or after which one of them is made again."""
NAMES_UP_TO = 1
"""Up to this version topics go by their names; later ones need ids."""
EPOCHS_SINCE = 3

PartitionKey = tuple[str, int]


class _Waiting(NamedTuple):
    """A proposal that is not answered yet."""

    proposal: IsrProposal
    answer: Answer
    broker_epoch: int
    """The life of this broker in which it was proposed."""
    is_open: Callable[[], bool]
    """Returns whether its leader still waits for the answer."""


class AlterIsr:
    """The `IsrStore` that asks the controller. Used on the event loop's thread only.

    Args:
        runtime: the loop.
        broker_id: the id of this broker.
        broker_epoch: returns its epoch.
        controller: returns the registration of the controller, or None while it is not known.
        connect: makes links to brokers.
        zookeeper: where states are read after a conflict.
    """

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: Callable[[], BrokerRegistration | None],
        connect: Connect,
        zookeeper: ZooKeeper,
    ) -> None:
        self._loop = runtime.loop
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._connect = connect
        self._zookeeper = zookeeper
        self._waiting: dict[PartitionKey, _Waiting] = {}
        self._sending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._link: Link | None = None
        self._peer: BrokerRegistration | None = None

    def submit(self, proposal: IsrProposal, answer: Answer, is_open: Callable[[], bool] = lambda: True) -> None:
        """See `IsrStore.submit`. A proposal that a newer one replaces gets no answer, nor one of an earlier life."""
        self._waiting[proposal.key] = _Waiting(proposal, answer, self._broker_epoch(), is_open)
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send())

    def look(self, proposal: IsrProposal, answer: Callable[[IsrDecision | None], None]) -> None:
        """See `IsrStore.look`."""

        async def read() -> None:
            answer(await read_state(self._zookeeper, proposal))

        task = self._loop.create_task(read())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop asking."""
        tasks = [*self._tasks, *([self._sending] if self._sending is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._link is not None:
            await self._link.close()

    # Inside

    async def _send(self) -> None:
        logged: set[ErrorCode] = set()
        while True:
            epoch = self._broker_epoch()
            self._waiting = {
                key: each for key, each in self._waiting.items() if each.broker_epoch == epoch and each.is_open()
            }
            if not self._waiting:
                return
            sent = dict(self._waiting)
            try:
                response = await self._ask([each.proposal for each in sent.values()], epoch)
                if response is not None and response.error_code:
                    code = ErrorCode.of(response.error_code)
                    # It may last until there is another controller, or this broker is registered again.
                    level = logging.DEBUG if code in logged else logging.INFO
                    logger.log(level, "The controller does not change ISRs at present: %s", code.name)
                    logged.add(code)
                elif response is not None and self._take(sent, response) and not self._repeats(sent):
                    continue
                await asyncio.sleep(RETRY_S)
            except (LinkError, UnsupportedVersionError) as error:
                logger.debug("The controller cannot be asked to change an ISR: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                logger.exception("The controller cannot be asked to change an ISR. Trying again")
                await asyncio.sleep(RETRY_S)

    async def _ask(self, proposals: list[IsrProposal], broker_epoch: int) -> AlterPartitionResponse | None:
        """Send one request; return None where the controller is not known."""
        link = await self._link_to_controller()
        if link is None:
            return None
        await link.connect()
        named = any(each.topic_id is None for each in proposals)
        version = link.version_of(AlterPartitionRequest, NAMES_UP_TO if named else None)
        request = self._request(proposals, broker_epoch, version)
        response: AlterPartitionResponse = await link.request(request, max_version=version, min_version=version)
        return response

    async def _link_to_controller(self) -> Link | None:
        controller = self._controller()
        if self._link is not None and controller != self._peer:
            link, self._link, self._peer = self._link, None, None
            await link.close()
        if controller is None:
            return None
        if self._link is None:
            try:
                self._link = self._connect(controller, "alter-partition")
            except NoListenerError as error:
                logger.error("The controller cannot be asked to change an ISR: %s", error)
                return None
            self._peer = controller
        return self._link

    def _request(self, proposals: list[IsrProposal], broker_epoch: int, version: int) -> AlterPartitionRequest:
        topics: dict[str, AlterPartitionRequest.TopicData] = {}
        for each in proposals:
            topic = topics.get(each.topic)
            if topic is None:
                topic = topics[each.topic] = AlterPartitionRequest.TopicData(
                    topic_name=each.topic, topic_id=each.topic_id or NO_TOPIC_ID
                )
            data = AlterPartitionRequest.TopicData.PartitionData(
                partition_index=each.index,
                leader_epoch=each.leader_epoch,
                partition_epoch=each.partition_epoch,
                reason=each.reason,
            )
            if version >= EPOCHS_SINCE:
                # Ours compares them, as that of KRaft does. Apache Kafka's in ZooKeeper mode does not look at them.
                epochs = {**each.epochs, self._broker_id: broker_epoch}
                data.new_isr_with_epochs = [
                    BrokerState(broker_id=replica, broker_epoch=epochs.get(replica, UNKNOWN_BROKER_EPOCH))
                    for replica in each.isr
                ]
            else:
                data.new_isr = list(each.isr)
            topic.partitions.append(data)
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))

    def _repeats(self, sent: dict[PartitionKey, _Waiting]) -> bool:
        """Return whether a proposal that was sent waits again: its leader repeats it, as it was not decided."""
        return any((again := self._waiting.get(key)) and again.proposal is each.proposal for key, each in sent.items())

    def _take(self, sent: dict[PartitionKey, _Waiting], response: AlterPartitionResponse) -> bool:
        """Hand on the answers; return whether there is any. Proposals that have none are sent again."""
        names = {each.proposal.topic_id: each.proposal.topic for each in sent.values()}
        has_any = False
        answered: list[tuple[Answer, IsrDecision | ErrorCode]] = []
        for topic in response.topics:
            name = topic.topic_name or names.get(topic.topic_id, "")
            for each in topic.partitions:
                key = name, each.partition_index
                if key not in sent:
                    continue
                has_any = True
                if self._waiting.get(key) is not sent[key]:
                    # A newer proposal has replaced it.
                    continue
                code = ErrorCode.of(each.error_code)
                decided = IsrDecision(each.leader_id, each.leader_epoch, each.partition_epoch, tuple(each.isr))
                del self._waiting[key]
                answered.append((sent[key].answer, decided if code is ErrorCode.NONE else code))
        if not has_any:
            logger.error("The controller answers to none of the changes of ISRs that it was asked for. Asking again")
        for answer, result in answered:
            try:
                answer(result)
            except Exception:
                # The others have their answers.
                logger.exception("The controller's answer to a changed ISR cannot be taken over")
        return has_any
