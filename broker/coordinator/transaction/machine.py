"""The state machine of one transactional id: its transitions, and the requests that are refused.

::

    Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers──▶ CompleteCommit ──add──▶ Ongoing …
                      └──end, fence──▶ PrepareAbort ──markers──▶ CompleteAbort ──add──▶ Ongoing …

InitProducerId leads from Empty and both Complete states to Empty with a greater epoch. InitProducerId and a timeout
abort an Ongoing transaction under a greater epoch, which no producer ever gets: so the old producer is fenced.

A change is computed, then stored by the caller, and only then in force. Until then it is `pending`, and other
requests get CONCURRENT_TRANSACTIONS. A decision, PrepareCommit or PrepareAbort, is final once it is stored. Markers in
all partitions carry it out, as often as that must be restarted, before the Complete state is stored.

Nothing here does I/O or reads a clock. The reference is Kafka's `TransactionMetadata` and `TransactionCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LARGEST_EPOCH = (1 << 15) - 1
EXHAUSTED_EPOCH = LARGEST_EPOCH - 1
"""The last epoch that a producer gets. One more is left, to fence it with."""

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """States by Kafka's numbers; `title` is Kafka's name. A pending state may also be one of the last two."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name, such as PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_decided(self) -> bool:
        """Return whether markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Return whether no transaction is open, so that the transactional id may be forgotten."""
        return self in _AT_REST


_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_PREPARE_COMMIT, _PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT, _COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
_AT_REST = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
_BEFORE = {
    _EMPTY: _AT_REST,
    _ONGOING: _AT_REST | {_ONGOING},
    _PREPARE_COMMIT: frozenset({_ONGOING}),
    _PREPARE_ABORT: frozenset({_ONGOING}),
    _COMPLETE_COMMIT: frozenset({_PREPARE_COMMIT, _COMPLETE_COMMIT}),
    _COMPLETE_ABORT: frozenset({_PREPARE_ABORT, _COMPLETE_ABORT}),
}
"""The states from which each state may be reached.

Ongoing and the Complete states are stored again for a request that changes nothing: only a write proves that this
broker still coordinates the transactional id. A broker that was replaced without knowing it would answer by an earlier
state.
"""
STATES_BY_TITLE = {state.title: state for state in TransactionState}


class Producer(NamedTuple):
    """The producer id and epoch of the client that sends a request."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """The stored state of a transactional id; times are milliseconds since the epoch."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions to which the transaction may write; after the decision, those that get a marker."""
    started_ms: int = -1
    """The time at which the transaction began, or -1 before the first."""
    last_producer_id: int = NO_PRODUCER_ID
    """The producer id before it or the epoch was raised for a producer that named them (KIP-360), so that its second
    request gets the same answer. Not stored, as in Kafka 3.9."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The producer epoch then; -1 after another producer took over. Not stored, as in Kafka 3.9."""


class TransactionMachine:
    """The state machine of one transactional id.

    Attributes:
        current: the state in force.
        pending: the state that is being stored; while markers are written, the one that follows them.
        unmarked: partitions that still lack their marker.
    """

    __slots__ = ("_failed_fence", "_fencing", "current", "pending", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, current: Transaction) -> None:
        self.transactional_id = transactional_id
        self.current = current
        self.pending: TransactionState | None = None
        self.unmarked = set(current.partitions) if current.state.is_decided else set()
        self._fencing = False
        self._failed_fence = False

    @classmethod
    def new(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMachine:
        """Return the machine of a new transactional id: Empty, without an epoch until one is stored."""
        return cls(transactional_id, Transaction(producer_id, NO_PRODUCER_EPOCH, timeout_ms, _EMPTY, now_ms))

    @property
    def producer(self) -> Producer:
        return Producer(self.current.producer_id, self.current.producer_epoch)

    # -- InitProducerId

    def needs_producer_id(self, expected: Producer | None) -> bool:
        """Return whether `init` needs a new producer id, because the epochs of the current one are used up."""
        current = self.current
        return (
            current.producer_epoch >= EXHAUSTED_EPOCH
            and current.state in _AT_REST
            and (expected is None or expected.epoch == current.producer_epoch)
        )

    def init(self, timeout_ms: int, expected: Producer | None, fresh_id: int, now_ms: int) -> Transaction:
        """Begin a producer's session: every other producer of this transactional id is fenced.

        Args:
            timeout_ms: `transaction.timeout.ms` of the producer.
            expected: the producer id and epoch that the producer holds and wants raised (KIP-360), or None.
            fresh_id: used if `needs_producer_id` says so.

        Returns:
            The change to store. It is PrepareAbort if a transaction is ongoing: that is aborted first, and the producer
            gets CONCURRENT_TRANSACTIONS, after which it retries.

        Raises:
            ConcurrentTransactionsError: another change is under way.
            ProducerFencedError: `expected` is not this transactional id's producer any more.
        """
        current = self.current
        if self.pending is not None:
            raise ConcurrentTransactionsError
        if expected is not None and not self._knows(expected):
            raise ProducerFencedError
        if current.state.is_decided:
            raise ConcurrentTransactionsError
        if current.state is _ONGOING:
            return self.fence(now_ms)
        empty = replace(
            current, state=_EMPTY, timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1, updated_ms=now_ms
        )
        if self.needs_producer_id(expected):
            last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
            return self._begin(
                replace(
                    empty, producer_id=fresh_id, producer_epoch=0, last_producer_id=current.producer_id,
                    last_producer_epoch=last_epoch,
                )
            )  # fmt: skip
        if expected is not None and current.producer_epoch not in (NO_PRODUCER_EPOCH, expected.epoch):
            # The request repeats an earlier one, which has raised the epoch already. No other producer came in between:
            # that would have cleared the last epoch.
            return self._begin(empty)
        last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
        return self._begin(
            replace(
                empty, producer_epoch=current.producer_epoch + 1, last_producer_id=current.producer_id,
                last_producer_epoch=last_epoch,
            )
        )  # fmt: skip

    def _knows(self, expected: Producer) -> bool:
        current = self.current
        if current.producer_epoch == NO_PRODUCER_EPOCH:
            # It was created just now, for a producer whose own state had expired.
            return True
        if expected.id == current.producer_id:
            return expected.epoch in (current.producer_epoch, current.last_producer_epoch)
        return (
            expected.id == current.last_producer_id
            and expected.epoch == current.last_producer_epoch
            and expected.epoch >= EXHAUSTED_EPOCH
        )

    def fence(self, now_ms: int) -> Transaction:
        """Abort an ongoing transaction under a greater epoch, which no producer gets; return the change to store.

        The epoch is in force at once. If it cannot be stored, the next attempt takes the same.
        """
        current = self.current
        epoch = current.producer_epoch if self._failed_fence else current.producer_epoch + 1
        if epoch > LARGEST_EPOCH:
            raise ValueError(f"{self.transactional_id!r} has no epoch left to be fenced with")
        change = self._begin(
            replace(
                current, state=_PREPARE_ABORT, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH,
                updated_ms=now_ms,
            )
        )  # fmt: skip
        self.current = replace(current, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
        self._fencing = True
        return change

    # -- in a transaction

    def add(self, producer: Producer, partitions: Iterable[TopicPartition], now_ms: int) -> Transaction:
        """Add partitions, beginning a transaction if none is ongoing; return the change to store.

        It is stored even if the transaction has all the partitions already; see `_BEFORE`.

        Raises:
            InvalidProducerIdMappingError: the producer id is not this transactional id's.
            ProducerFencedError: the epoch is not the present one.
            ConcurrentTransactionsError: another change is under way, such as the end of the last transaction.
        """
        current = self.current
        self._check(producer)
        if self.pending is not None or current.state.is_decided:
            raise ConcurrentTransactionsError
        return self._begin(
            replace(
                current,
                state=_ONGOING,
                partitions=current.partitions | frozenset(partitions),
                started_ms=current.started_ms if current.state is _ONGOING else now_ms,
                updated_ms=now_ms,
            )
        )

    def end(self, producer: Producer, *, committed: bool, now_ms: int) -> Transaction:
        """Decide the transaction; return the change to store.

        A transaction that has ended that way already stays as it is, and is stored again; see `_BEFORE`.

        Raises:
            InvalidProducerIdMappingError: the producer id is not this transactional id's.
            ProducerFencedError: the epoch is not the present one.
            ConcurrentTransactionsError: another change is under way, such as the end of this transaction.
            InvalidTxnStateError: there is no transaction, or it has ended the other way.
        """
        current = self.current
        self._check(producer)
        if self.pending is not None or current.state.is_decided:
            raise ConcurrentTransactionsError
        if current.state is _ONGOING:
            state = _PREPARE_COMMIT if committed else _PREPARE_ABORT
            return self._begin(replace(current, state=state, updated_ms=now_ms))
        if current.state is (_COMPLETE_COMMIT if committed else _COMPLETE_ABORT):
            return self._begin(replace(current, updated_ms=now_ms))
        raise InvalidTxnStateError

    def complete(self, now_ms: int) -> Transaction:
        """Return the state to store once every partition has its marker; pending from the decision on."""
        current = self.current
        self._fencing = self._failed_fence = False
        state = _COMPLETE_COMMIT if current.state is _PREPARE_COMMIT else _COMPLETE_ABORT
        return self._begin(replace(current, state=state, partitions=frozenset(), updated_ms=now_ms))

    def verify(self, producer: Producer, partition: TopicPartition) -> None:
        """Check that the producer's transaction covers a partition to which it is about to write (KIP-890).

        A pending change is ignored: the partition's log decides what is appended before the marker.

        Raises:
            InvalidProducerIdMappingError: the producer id is not this transactional id's.
            InvalidProducerEpochError: the epoch is not the present one.
            ConcurrentTransactionsError: the transaction is being ended.
            TransactionAbortableError: the partition was not added to it.
        """
        current = self.current
        if producer.id != current.producer_id:
            raise InvalidProducerIdMappingError
        if producer.epoch != current.producer_epoch:
            # Producers expect this error here; elsewhere it is PRODUCER_FENCED.
            raise InvalidProducerEpochError
        if current.state.is_decided:
            raise ConcurrentTransactionsError
        if partition not in current.partitions:
            raise TransactionAbortableError

    def _check(self, producer: Producer) -> None:
        if producer.id != self.current.producer_id:
            raise InvalidProducerIdMappingError
        if producer.epoch != self.current.producer_epoch or producer.epoch == NO_PRODUCER_EPOCH:
            raise ProducerFencedError

    # -- time

    def has_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction has been open for longer than its timeout, and may be aborted."""
        current = self.current
        return self.pending is None and current.state is _ONGOING and current.started_ms + current.timeout_ms < now_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether the transactional id has been unused for so long that it may be forgotten."""
        current = self.current
        return self.pending is None and current.state.may_expire and current.updated_ms <= now_ms - expiration_ms

    def bury(self) -> None:
        """Begin to forget the transactional id; this is pending until its tombstone is stored."""
        self.pending = TransactionState.DEAD

    # -- storing

    def stored(self, change: Transaction) -> None:
        """Put the pending `change`, which is stored now, in force."""
        if self.pending is not change.state:
            raise ValueError(f"{self.transactional_id!r}: {change.state.title} was stored, but is not pending")
        self.pending = None
        self.current = change
        self.unmarked = set(change.partitions) if change.state.is_decided else set()

    def failed(self) -> None:
        """Drop the pending change, which was probably not stored; the state stays."""
        self.pending = None
        self._failed_fence = self._failed_fence or self._fencing
        self._fencing = False

    def _begin(self, change: Transaction) -> Transaction:
        if self.pending is not None or self.current.state not in _BEFORE[change.state]:
            raise ValueError(
                f"{self.transactional_id!r} cannot go from {self.current.state.title} to {change.state.title}, "
                f"with {'nothing' if self.pending is None else self.pending.title} pending"
            )
        self.pending = change.state
        return change
