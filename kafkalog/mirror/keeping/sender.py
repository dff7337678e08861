"""Send batches to the target so that they keep their offsets, each once.

A request whose answer is missing may have been carried out. Then the sender looks where the target's log ends, and goes
on behind that. So it does where another process has written meanwhile: what that one wrote is the same.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, KafkaError, about, is_retriable
from kafkalog.client.network.at_once import ask_at_once
from kafkalog.client.offsets import LATEST, ask_leaders
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition
from kafkalog.mirror.copying.batching.joining import first_joined
from kafkalog.mirror.copying.refused_batches import REFUSALS, RefusedBatch
from kafkalog.mirror.keeping.errors import KeepingError, MovedError, OffsetsIgnoredError, TargetLostRecordsError
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError, error_for
from kafkalog.protocol.messages.api_versions import STATED_OFFSETS
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalog.records.batch import set_producer

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 1 << 20
"""The most bytes of a partition in one request; at least one batch."""
MAX_REQUEST_BATCHES = 500
"""The most batches of a partition in one request; brokers take a thousand."""
DELIVERY_S = 120.0
"""The time for which batches are tried if all places fail, as `delivery.timeout.ms` of producers."""
PATIENCE_S = 15.0
"""The time for which places are tried that fail while others do not. An election may take as long."""
ANSWER_S = 5.0
"""The time for which leaders are asked where logs end. Other places wait that long for one that does not answer."""
COMPARE_AFTER_S = 600.0
"""The time without batches after which it is asked where a log ends before batches are numbered again. A broker forgets
the producer after `producer.id.expiration.ms`, a day by default, and does not check its sequence numbers then."""
STATED_SINCE = 9
"""Produce requests of this version can say where the log has to end."""
_SEQUENCE_MASK = 0x7FFFFFFF
_MOVED = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)
_REFUSALS = REFUSALS - {ErrorCode.POLICY_VIOLATION}
"""The errors of one batch. A policy violation is none: it says that the topic is not a mirror any more."""


class KeptBatch(NamedTuple):
    """A batch to send: without a producer, with the source's base offset if offsets are stated."""

    data: bytearray
    base_offset: int
    next_offset: int
    """The offset after its last one."""


class Place:
    """A partition of the target, and the batches that wait for it.

    Args:
        target: The partition.
        stated: Whether it takes batches that state their offsets.
        end: Where its log ends.
        joined_bytes: How large a batch of joined small ones may be, where offsets are not stated; 0: none is joined.

    Attributes:
        target, stated: As given.
        end: Where its log ends, as far as it has acknowledged.
        pending: The batches that it has not acknowledged, in order.
        refused: The first of them, if the target refuses it; then nothing is sent.
    """

    def __init__(self, target: TopicPartition, stated: bool, end: int, joined_bytes: int = 0) -> None:
        self.target, self.stated, self.end = target, stated, end
        self.pending: deque[KeptBatch] = deque()
        self.refused: RefusedBatch | None = None
        self._joined_bytes = joined_bytes
        self._singly_until = 0
        """The offset before which each batch goes in a request of its own."""

    @property
    def is_ready(self) -> bool:
        """Return whether something can be sent."""
        return bool(self.pending) and self.refused is None

    def upto(self, most: int) -> list[KeptBatch]:
        """Return the batches of the next request: `most` bytes, or one where they are numbered.

        Numbered ones are joined only here, so `pending` has those of the source. Another process may join the same ones
        otherwise: the log ends behind one of the source's all the same.
        """
        singly = self.end < self._singly_until
        if not self.stated:
            data, count = first_joined((each.data for each in self.pending), 0 if singly else self._joined_bytes)
            return [KeptBatch(data, self.pending[0].base_offset, self.pending[count - 1].next_offset)]
        taken: list[KeptBatch] = []
        size = 0
        for batch in self.pending:
            size += len(batch.data)
            if taken and (singly or size > most or len(taken) == MAX_REQUEST_BATCHES):
                break
            taken.append(batch)
        return taken

    def refuse(self, next_offset: int, error: KafkaError) -> None:
        """Note that the target refuses the batches before `next_offset`; several ones are sent singly then."""
        first = self.pending[0]
        if next_offset > first.next_offset:
            self._singly_until = next_offset
            if error.code == ErrorCode.MESSAGE_TOO_LARGE:
                self._joined_bytes = 0
        else:
            self.refused = RefusedBatch(first.base_offset, first.next_offset, False, error)

    def give_up(self, error: KafkaError | ClientError) -> None:
        """Note that the target does not take the first batch now: the owner is to read it again later."""
        first = self.pending[0]
        self.refused = RefusedBatch(first.base_offset, first.next_offset, False, error)

    def take_refused(self) -> RefusedBatch | None:
        """Return the refused batch, and give it up with those after it; None if there is none."""
        refused, self.refused = self.refused, None
        if refused is not None:
            self.pending.clear()
        return refused

    def acknowledge(self, end: int) -> None:
        """Forget the batches before `end`, where the log now ends.

        Raises:
            TargetLostRecordsError: It has ended later before.
            KeepingError: It ends within a batch of the source.
        """
        if end < self.end:
            raise TargetLostRecordsError(f"{self.target} ends at offset {end}, and has ended at {self.end} before")
        while self.pending and self.pending[0].next_offset <= end:
            self.pending.popleft()
        if self.pending and self.pending[0].base_offset < end:
            raise KeepingError(
                f"{self.target} ends at offset {end}, within a batch of the source from offset "
                f"{self.pending[0].base_offset} on: other records than the mirror's are there. Delete the topic in the "
                "target to mirror it anew"
            )
        self.end = end


_Failed: TypeAlias = dict[Place, KafkaError | ClientError]
"""The error of each place that is tried again."""


class KeptSender:
    """Sends what waits for places, over connections of its own.

    Args:
        cluster: The target; the caller closes it.
        producer_id: The one whose sequence numbers keep the order, for places that do not take stated offsets.
        clock: Returns the time in seconds. Unlike `time.monotonic`, it must go on while the machine stands still.
    """

    def __init__(self, cluster: Cluster, producer_id: int, clock: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._producer_id = producer_id
        self._clock = clock
        self._began_at = clock()
        self._told_at: dict[Place, float] = {}
        """The times at which the ends of places' logs were last known; the sender's beginning for all others."""
        self._given_up: set[Place] = set()
        """Places that were given up, and whose leaders have not told since where the logs end."""

    def deliver(self, places: Iterable[Place]) -> None:
        """Send all that waits, and wait until the target has it. It has only what is before a batch that it refuses.

        All leaders are sent to at once. While it is not known where the log of a place ends, nothing is sent there. A
        place that fails for `PATIENCE_S` is given up if others have not failed, as if the target refused its first
        batch. Places come last whose leaders are asked first where the logs end, so that the others do not wait for
        them: those that were given up before, and those that have not been sent to for `COMPARE_AFTER_S`.

        Raises:
            KeepingError: The offsets cannot be kept.
            OffsetsIgnoredError: The leader of a partition would append the records at other offsets.
            KafkaError, ClientError: The target does not take the records, or does not answer for `DELIVERY_S`.
        """
        left = [place for place in places if place.pending]
        for place in left:
            # Others have been here before, as it turned out with batches before these.
            place.acknowledge(place.end)
        left = [place for place in left if place.is_ready]
        doubtful = [place for place in left if place in self._given_up or self._may_be_forgotten(place)]
        self._deliver([place for place in left if place not in doubtful], len(left), PATIENCE_S)
        self._give_up(self._look_again(doubtful))
        self._deliver([place for place in doubtful if place.is_ready], len(left), ANSWER_S)
        self._told_at |= dict.fromkeys(left, self._clock())

    def _may_be_forgotten(self, place: Place) -> bool:
        """Tell whether the place's leader may check sequence numbers no more."""
        return not place.stated and self._clock() - self._told_at.get(place, self._began_at) > COMPARE_AFTER_S

    def _deliver(self, left: Sequence[Place], count: int, patience: float) -> None:
        """Send what waits for some of `count` places, as `deliver` does; have `patience` with those that fail."""
        retry, patience_ends = self._cluster.retry(time.monotonic() + DELIVERY_S), time.monotonic() + patience
        unknown: _Failed = {}
        all_failed = False
        while left:
            timeout = self._cluster.config.request_timeout
            if not all_failed:
                # If all fail, the connection to the target may be slow: then a request may take as long as it needs.
                timeout = min(timeout, max(patience_ends - time.monotonic(), ANSWER_S))
            failed = unknown | self._send([place for place in left if place not in unknown], timeout)
            unknown, all_failed = {}, len(failed) == count
            if failed:
                for place, error in failed.items():
                    logger.info("%s is tried again: %s", place.target, error)
                errors = list(failed.values())
                worst = next((each for each in errors if not is_retriable(each)), errors[0])
                if is_retriable(worst) and not all_failed and time.monotonic() >= patience_ends:
                    self._give_up(failed)
                else:
                    retry.after(worst)
                    unknown = self._look_again(list(failed))
            left = [place for place in left if place.is_ready]

    def _send(self, places: Sequence[Place], timeout: float) -> _Failed:
        """Send what waits to all leaders at once; return the places for which it failed.

        Each request may take `timeout` seconds.
        """
        failed: _Failed = {}
        by_leader: dict[int, list[Place]] = defaultdict(list)
        for place in places:
            try:
                by_leader[self._cluster.leader_now(place.target).broker.node_id].append(place)
            except (KafkaError, ClientError) as error:
                failed[place] = error

        def to_leader(node_id: int) -> _Failed:
            lacking: _Failed = {}
            while group := [each for each in by_leader[node_id] if each not in lacking and each.is_ready]:
                lacking |= self._send_once(node_id, group, timeout)
            return lacking

        raised: list[Exception] = []
        for outcome in ask_at_once(by_leader, to_leader).values():
            if isinstance(outcome, Exception):
                raised.append(outcome)
            else:
                failed |= outcome
        if raised:
            # Other leaders have got theirs before.
            raise raised[0]
        return failed

    def _send_once(self, node_id: int, group: Sequence[Place], timeout: float) -> _Failed:
        """Send one request to a leader; return the places for which it failed."""
        sent = {place: place.upto(MAX_REQUEST_BYTES) for place in group}
        request = self._request(sent, timeout)
        least = STATED_SINCE if any(place.stated for place in group) else 0
        try:
            response: ProduceResponse = self._cluster.request_to(
                node_id,
                request,
                timeout=timeout,
                min_version=least,
                feature=STATED_OFFSETS if least else None,
            )
        except UnsupportedVersionError as error:
            # Without its cause, which would count as one that no later try mends: another broker may lead then.
            raise OffsetsIgnoredError(_not_taken(group, node_id, error)) from None
        except (KafkaError, ClientError) as error:
            return dict.fromkeys(group, error)
        answers = {
            TopicPartition(topic.name, each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        problems = {place: _settle(place, batches, answers.get(place.target)) for place, batches in sent.items()}
        return {place: problem for place, problem in problems.items() if problem is not None}

    def _request(self, sent: dict[Place, list[KeptBatch]], timeout: float) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for place, batches in sent.items():
            if place.stated:
                records = batches[0].data if len(batches) == 1 else bytearray().join(each.data for each in batches)
                data = PartitionProduceData(
                    index=place.target.partition, records=records, expected_end_offset=place.end
                )
            else:
                (batch,) = batches
                set_producer(batch.data, 0, self._producer_id, 0, batch.base_offset & _SEQUENCE_MASK)
                data = PartitionProduceData(index=place.target.partition, records=batch.data)
            topics[place.target.topic].append(data)
        return ProduceRequest(
            acks=-1,
            timeout_ms=int(timeout * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()],
        )

    def _give_up(self, failed: _Failed) -> None:
        for place, error in failed.items():
            if place.is_ready:
                place.give_up(error)
                self._given_up.add(place)

    def _look_again(self, places: Sequence[Place]) -> _Failed:
        """Find out where the logs of places end; return those whose leaders do not tell it now, with the errors.

        Raises:
            KeepingError: A log does not end where it can go on.
            KafkaError, ClientError: A leader refuses to tell it.
        """
        if not places:
            return {}
        self._cluster.forget({place.target.topic for place in places})
        asked = dict.fromkeys((place.target for place in places), LATEST)
        answers = ask_leaders(self._cluster, asked, READ_UNCOMMITTED, time.monotonic() + ANSWER_S)
        unknown: _Failed = {}
        for place in places:
            answer = answers[place.target]
            if isinstance(answer, KafkaError | ClientError) and is_retriable(answer):
                unknown[place] = answer
            elif isinstance(answer, Exception):
                raise answer
            else:
                self._given_up.discard(place)
                place.acknowledge(answer.offset)
        return unknown


def _not_taken(group: Sequence[Place], node_id: int, error: UnsupportedVersionError) -> str:
    names = ", ".join(str(place.target) for place in group)
    return (
        f"{names} of the target: the leader, broker {node_id}, takes no records at the offsets that they state "
        f"({error.message}): it is one of Apache Kafka, or of an older kafkalog. Move these partitions to brokers of "
        "kafkalog, or use --offsets translate"
    )


def _settle(
    place: Place, batches: list[KeptBatch], answer: PartitionProduceResponse | None
) -> KafkaError | ClientError | None:
    """Take an answer over; return its error.

    Raises:
        KeepingError: The target has given the records other offsets.
    """
    first, last = batches[0], batches[-1]
    if answer is None:
        return MovedError(f"no answer about {place.target}")
    if answer.error_code in _MOVED:
        return MovedError(f"{place.target}: {answer.error_message or ErrorCode(answer.error_code).name}")
    if answer.error_code in _REFUSALS:
        place.refuse(last.next_offset, error_for(answer.error_code, answer.error_message))
        return None
    if answer.error_code:
        return about(answer.error_code, f"partition {place.target}", answer.error_message)
    if answer.base_offset != first.base_offset:
        raise KeepingError(
            f"{place.target} gave the record at offset {first.base_offset} of the source the offset "
            f"{answer.base_offset}: others write there, too. Delete the topic in the target to mirror it anew"
        )
    # A batch that was there already may be followed by others.
    place.acknowledge(max(last.next_offset, place.end))
    return None
