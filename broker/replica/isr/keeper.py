"""Keeps the ISR of the partitions led here: proposes who joins and who leaves, and takes over what was decided.

A leader does not change an ISR itself. It proposes the change, and until the answer comes its members, old and new,
have to have each record before it is acknowledged. Each partition has one proposal at a time.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from broker.replica.isr.rules import described
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

PartitionKey = tuple[str, int]
REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""A member cannot be in the ISR at present: the one that is in force stays."""
SUPERSEDED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The cluster knows something newer, of which the controller tells this broker. The proposal stays until then."""


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A change of a partition's ISR that its leader asks for."""

    topic: str
    index: int
    topic_id: uuid.UUID | None
    leader_epoch: int
    partition_epoch: int
    """The version of the state that the change is based on."""
    isr: tuple[int, ...]
    """In the order of the assignment."""
    reason: str = ""
    """The reason for the change, with the evidence."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """The followers' broker epochs at their last fetches, as far as they are known."""

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index


@dataclass(frozen=True, slots=True)
class IsrDecision:
    """The ISR that the cluster has stored."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


Answer = Callable[[IsrDecision | ErrorCode], None]


class IsrStore(Protocol):
    """Stores ISRs: by the controller, or in the partition's state in ZooKeeper."""

    def submit(self, proposal: IsrProposal, answer: Answer, is_open: Callable[[], bool]) -> None:
        """Propose a change; call `answer` once, on the event loop, never before this returns.

        Propose it no more, and call nothing, when `is_open` returns False: the leader has lost its role or its log.
        """

    def look(self, proposal: IsrProposal, answer: Callable[[IsrDecision | None], None]) -> None:
        """Read the state in force, because a proposal was based on an older one.

        Call `answer` with it; with None, after a pause, if it cannot be read.
        """


class IsrKeeper:
    """Keeps the ISR of the partitions that this broker leads. Used on the event loop's thread only.

    Args:
        replicas: the partitions; it tells of fetches by followers.
        store: decides.

    Attributes:
        shrinks, expansions, failures: how many changes were decided, and how many were not.
    """

    def __init__(self, replicas: ReplicaManager, store: IsrStore) -> None:
        self._replicas = replicas
        self._store = store
        self.shrinks = 0
        self.expansions = 0
        self.failures = 0
        replicas.on_follower_fetched = self.follower_fetched

    def follower_fetched(self, partition: Partition, replica: int) -> None:
        """Propose that a follower joins the ISR, if it has caught up."""
        leading = partition.leading
        if leading is None or replica in leading.isr:
            return
        expanded = partition.expanded_isr(replica)
        if expanded is not None:
            reason = (
                f"{replica} has caught up: its log ends at {leading.followers[replica].log_end_offset}, "
                f"the high watermark is {partition.high_watermark}"
            )
            logger.info("Expanding ISR of %s-%d: %s", *partition.key, reason)
            self._propose(partition, expanded, reason)

    def check(self, partition: Partition) -> None:
        """Propose that followers that fell behind leave the ISR; call it twice in `replica.lag.time.max.ms`.

        A leader whose log is offline proposes nothing: its followers cannot fetch, and one of them is to lead.
        """
        if partition.leading is None or partition.log.offline is not None:
            return
        shrunk = partition.shrunk_isr()
        if shrunk is not None:
            reason = self._reason(partition, partition.leading.isr - shrunk)
            logger.info(
                "Shrinking ISR of %s-%d from %s to %s: %s",
                *partition.key,
                sorted(partition.leading.isr),
                sorted(shrunk),
                reason,
            )
            self._propose(partition, shrunk, reason)
        # A follower outside of the ISR holds the high watermark back only while it has caught up lately.
        if partition.advance_high_watermark():
            self._replicas.high_watermark_advanced(partition)

    def adopt(self, partition: Partition, found: IsrDecision) -> None:
        """Take over the state in force, if this broker leads in it and waits for nothing else."""
        leading = partition.leading
        if leading is None or leading.proposed is not None or found.partition_epoch <= leading.partition_epoch:
            return
        if (found.leader, found.leader_epoch) == (partition.broker_id, leading.epoch):
            partition.confirm_isr(leading.epoch, frozenset(found.isr), found.partition_epoch)
            self._replicas.high_watermark_advanced(partition)

    def _reason(self, partition: Partition, gone: frozenset[int]) -> str:
        """Return why followers leave the ISR: since when they lack records, and how many."""
        leading = partition.leading
        assert leading is not None
        now_ms, end = self._replicas.runtime.monotonic_ms(), partition.log.log_end_offset
        told = [f"{replica} {described(leading.followers.get(replica), end, now_ms)}" for replica in sorted(gone)]
        return (
            f"{'; '.join(told)}. The log ends at {end}, the high watermark is {partition.high_watermark}, "
            f"replica.lag.time.max.ms is {partition.max_lag_ms}"
        )

    def _propose(self, partition: Partition, isr: frozenset[int], reason: str) -> None:
        leading = partition.leading
        assert leading is not None
        leading.propose(isr)
        ordered = [replica for replica in leading.replicas if replica in isr]
        proposal = IsrProposal(
            partition.topic,
            partition.index,
            partition.log.topic_id,
            leading.epoch,
            leading.partition_epoch,
            (*ordered, *sorted(isr.difference(ordered))),
            reason,
            leading.broker_epochs,
        )
        self._submit(partition, proposal)

    def _submit(self, partition: Partition, proposal: IsrProposal) -> None:
        self._store.submit(
            proposal,
            lambda answer: self._answered(partition, proposal, answer),
            lambda: self._is_open(partition, proposal),
        )

    def _is_open(self, partition: Partition, proposal: IsrProposal) -> bool:
        """Return whether the leader still waits for the answer to this proposal.

        It does not when its log is offline, as in Kafka (`Partition.markOffline`): one of its followers is to lead, and
        nothing more is acknowledged here.
        """
        leading = partition.leading
        return (
            leading is not None
            and partition.log.offline is None
            and leading.epoch == proposal.leader_epoch
            and leading.partition_epoch == proposal.partition_epoch
            and leading.proposed == frozenset(proposal.isr)
        )

    def _answered(self, partition: Partition, proposal: IsrProposal, answer: IsrDecision | ErrorCode) -> None:
        if not self._is_open(partition, proposal):
            return
        if isinstance(answer, IsrDecision):
            self._decided(partition, proposal, answer)
            return
        self.failures += 1
        logger.info("The ISR %s of %s-%d is refused: %s", proposal.isr, *partition.key, answer.name)
        if answer in REFUSED:
            if partition.withdraw_isr(proposal.leader_epoch):
                self._replicas.high_watermark_advanced(partition)
        elif answer is ErrorCode.INVALID_UPDATE_VERSION:
            self._look(partition, proposal)
        elif answer not in SUPERSEDED:
            self._submit(partition, proposal)

    def _look(self, partition: Partition, proposal: IsrProposal) -> None:
        self._store.look(proposal, lambda found: self._found(partition, proposal, found))

    def _found(self, partition: Partition, proposal: IsrProposal, found: IsrDecision | None) -> None:
        """Go on from the state in force, if this broker still leads in it (Kafka waits for the controller's word)."""
        if not self._is_open(partition, proposal):
            return
        if found is None:
            self._look(partition, proposal)
        else:
            self._decided(partition, proposal, found)

    def _decided(self, partition: Partition, proposal: IsrProposal, decided: IsrDecision) -> None:
        leading = partition.leading
        assert leading is not None
        if (decided.leader, decided.leader_epoch) != (partition.broker_id, proposal.leader_epoch):
            # The controller's word on the new epoch is on its way.
            return
        if decided.partition_epoch < leading.partition_epoch:
            return
        before, after = leading.isr, frozenset(decided.isr)
        self.shrinks += bool(before - after)
        self.expansions += bool(after - before)
        partition.confirm_isr(proposal.leader_epoch, after, decided.partition_epoch)
        logger.info("ISR of %s-%d is %s, version %d", *partition.key, sorted(after), decided.partition_epoch)
        self._replicas.high_watermark_advanced(partition)
