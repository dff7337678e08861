"""What a transactional producer may do next, and what ended transactions leave behind: a state machine without I/O.

    UNINITIALIZED ─► INITIALIZING ─► READY ─► IN_TRANSACTION ─► COMMITTING ─► READY
                                                   │    └─────► ABORTING ───► READY
                                                   ▼               ▲
                                            ABORTABLE_ERROR ───────┘
    any ─► FATAL_ERROR          IN_TRANSACTION ─► DETACHED

The states are those of Java's TransactionManager (KIP-98) and DETACHED, in which another process has the transaction.
A call that a state does not allow raises TransactionStateError and changes nothing. A batch that failed makes the
transaction one that can only be aborted; and since a leader may have the batch all the same, or lack it, the next
transaction begins with another epoch and with sequences from 0 (KIP-360).

Whoever holds an instance holds a lock around each call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from kafkalog.client.errors import ClientError
from kafkalog.client.transaction_errors import (
    AbortableTransactionError,
    FatalTransactionError,
    FencedError,
    TransactionError,
    cannot_be_ended,
)
from kafkalog.client.transaction_requests import ProducerIdentity
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError


class TransactionStateError(ClientError, RuntimeError):
    """A call that is wrong in the producer's present state; nothing has changed (Java's IllegalStateException)."""


class TransactionAbortedError(ClientError):
    """The record was not sent, because its transaction was aborted first."""


class State(Enum):
    """What the producer is in; the value is what messages call it."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"
    DETACHED = "DETACHED"


_SOURCES = {
    # Again where the call before it ran out of time.
    State.INITIALIZING: (State.UNINITIALIZED, State.INITIALIZING),
    State.IN_TRANSACTION: (State.READY,),
    State.COMMITTING: (State.IN_TRANSACTION, State.COMMITTING),
    State.ABORTING: (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING),
    State.DETACHED: (State.IN_TRANSACTION,),
}
_CALLS = {
    State.INITIALIZING: "init_transactions",
    State.IN_TRANSACTION: "begin_transaction",
    State.COMMITTING: "commit_transaction",
    State.ABORTING: "abort_transaction",
    State.DETACHED: "detach",
}
_FATAL_CODES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class TransactionManager:
    """The transactions of one transactional id, as its producer sees them."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.identity = ProducerIdentity()
        self.error: TransactionError | None = None
        """What made the state one of the two error states, or what is being aborted for."""
        self.partitions: set[TopicPartition] = set()
        """Those that the coordinator has in the transaction."""
        self.began = False
        """Whether the coordinator has begun the transaction: a partition or a group is in it."""
        self.in_doubt = False
        """Whether it may have, because an answer was lost."""
        self.end_known = False
        """Whether it has ended the transaction since."""
        self.needs_epoch = False
        """Whether some partition's sequence is unsure, so that the next transaction needs another epoch."""
        self.unsure_offsets: set[tuple[str, TopicPartition]] = set()
        """Groups and partitions whose offsets may be in the transaction or not: sending them did not end."""

    # Calls of the user

    def begin_init(self) -> None:
        """``init_transactions``: ask for a producer id."""
        self._enter(State.INITIALIZING)

    def initialized(self, identity: ProducerIdentity) -> None:
        """There is a producer id."""
        self.identity = identity
        self._reset()

    def begin(self) -> None:
        """``begin_transaction``; the coordinator hears of it with the first partition or group."""
        self._enter(State.IN_TRANSACTION)

    def begin_commit(self) -> None:
        """``commit_transaction``: take no more records, and deliver those that there are."""
        self._check_offsets("commit")
        self._enter(State.COMMITTING)

    def begin_abort(self) -> None:
        """``abort_transaction``: what was not sent will not be."""
        self._enter(State.ABORTING)

    def detach(self) -> None:
        """Leave the transaction to somebody else."""
        self._check_offsets("detach")
        self._enter(State.DETACHED)

    def reattach(self) -> None:
        """The transaction was not left to anybody after all."""
        if self.state is State.DETACHED:
            self.state = State.IN_TRANSACTION

    def check_send(self) -> None:
        """Raise unless records can be sent now."""
        if self.state is not State.IN_TRANSACTION:
            self._check_error("send")
            raise TransactionStateError(f"{self._name}: cannot send in state {self.state.value}; {self._advice()}")

    def check_offsets(self) -> None:
        """Raise unless offsets can be sent to the transaction now."""
        if self.state is not State.IN_TRANSACTION:
            self._check_error("send offsets")
            raise TransactionStateError(
                f"{self._name}: cannot send offsets without a transaction in progress (state {self.state.value})"
            )

    def check_commit(self) -> None:
        """Raise where delivering the last records has failed: then there is nothing to commit."""
        self._check_error("commit")

    # What happens

    def added(self, partitions: Collection[TopicPartition]) -> None:
        """The coordinator has these partitions in the transaction."""
        self.partitions.update(partitions)
        self.began = True

    def offsets_added(self) -> None:
        """The coordinator has a group in the transaction."""
        self.began = True

    def doubt_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """The group's offsets of these partitions are being sent; while that has not ended there is no commit."""
        self.unsure_offsets.update((group, partition) for partition in partitions)

    def offsets_settled(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """The group's coordinator has the offsets, for when the transaction commits, or has refused them."""
        self.unsure_offsets.difference_update((group, partition) for partition in partitions)

    def doubt(self) -> None:
        """An answer was lost that would have said that the transaction began."""
        self.in_doubt = True

    def end_answered(self) -> None:
        """The coordinator has ended the transaction; another epoch may still be due."""
        self.end_known = True

    def ended(self, identity: ProducerIdentity | None = None) -> None:
        """The transaction has ended, and there is another epoch where one was needed."""
        if identity is not None:
            self.identity = identity
        self._reset()

    def fail(self, error: Exception, *, batch: bool = False) -> None:
        """Something of the transaction failed; ``batch`` where it was one that a leader may have."""
        self.needs_epoch |= batch
        found = self._sort(error)
        if isinstance(found, FatalTransactionError):
            if self.state is not State.FATAL_ERROR:
                self.state, self.error = State.FATAL_ERROR, found
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING, State.DETACHED):
            self.state, self.error = State.ABORTABLE_ERROR, found

    # What is to be done

    @property
    def open(self) -> bool:
        """Whether there is a transaction that is not ended yet, and can be."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR)

    @property
    def doomed(self) -> bool:
        """Whether no record can be of use any more, those that wait to be tried again included."""
        return self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)

    @property
    def withdrawing(self) -> bool:
        """Whether what was never sent is not to be sent."""
        return self.doomed or self.state is State.ABORTING

    @property
    def must_end(self) -> bool:
        """Whether the coordinator must be told how the transaction ends."""
        return (self.began or self.in_doubt) and not self.end_known and not cannot_be_ended(self.error)

    @property
    def must_raise_epoch(self) -> bool:
        """Whether another epoch is due before the next transaction."""
        return self.needs_epoch or cannot_be_ended(self.error)

    # Inside

    @property
    def _name(self) -> str:
        return f"transactional.id {self.transactional_id}"

    def _enter(self, target: State) -> None:
        state, call = self.state, _CALLS[target]
        if state in _SOURCES[target]:
            self.state = target
            return
        self._check_error(call)
        if state in (State.INITIALIZING, State.COMMITTING, State.ABORTING):
            raise TransactionStateError(
                f"{self._name}: {call} while {_CALLS[state]} has not ended; where that ran out of time, call it again"
            )
        raise TransactionStateError(f"{self._name}: {call} in state {state.value}; {self._advice()}")

    def _check_offsets(self, what: str) -> None:
        if self.unsure_offsets and self.state is State.IN_TRANSACTION:
            groups = ", ".join(sorted({group for group, _ in self.unsure_offsets}))
            raise TransactionStateError(
                f"{self._name}: cannot {what}, because sending the offsets of {groups} did not end; "
                "call send_offsets_to_transaction again, or abort"
            )

    def _check_error(self, what: str) -> None:
        if self.doomed:
            assert self.error is not None
            kind = type(self.error)
            text = self.error.message if isinstance(self.error, FencedError) else str(self.error)
            raise kind(f"cannot {what.replace('_', ' ')}, because of an earlier error: {text}") from self.error

    def _advice(self) -> str:
        return {
            State.UNINITIALIZED: "call init_transactions first",
            State.INITIALIZING: "init_transactions has not ended",
            State.READY: "call begin_transaction first",
            State.IN_TRANSACTION: "commit or abort the transaction first",
            State.COMMITTING: "the transaction is being committed",
            State.ABORTING: "the transaction is being aborted",
            State.DETACHED: "the transaction is another process's now",
        }.get(self.state, "abort the transaction first")

    def _sort(self, error: Exception) -> TransactionError:
        if isinstance(error, TransactionError):
            return error
        kind: type[TransactionError] = AbortableTransactionError
        if isinstance(error, KafkaError):
            # A leader's INVALID_PRODUCER_EPOCH may be of no consequence: the coordinator knows (KIP-588).
            if error.code == ErrorCode.PRODUCER_FENCED:
                kind = FencedError
            elif error.code in _FATAL_CODES:
                kind = FatalTransactionError
        found = kind(f"{self._name}: {error}")
        found.__cause__ = error
        return found

    def _reset(self) -> None:
        if self.state is not State.FATAL_ERROR:
            self.state = State.READY
            self.error = None
        self.partitions.clear()
        self.unsure_offsets.clear()
        self.began = self.in_doubt = self.end_known = self.needs_epoch = False
