"""The states of a transactional producer, and what ended transactions leave behind: a state machine without I/O.

    UNINITIALIZED ─► INITIALIZING ─► READY ─► IN_TRANSACTION ─► COMMITTING ─► READY
                                                   │    └─────► ABORTING ───► READY
                                                   ▼               ▲
                                            ABORTABLE_ERROR ───────┘
    any ─► FATAL_ERROR          IN_TRANSACTION ─► DETACHED

The states are those of Java's TransactionManager (KIP-98) and DETACHED, in which another process has the transaction.
A call that a state does not allow raises TransactionStateError and changes nothing. A batch that failed makes the
transaction one that can only be aborted; and since a leader may have the batch all the same, or lack it, the next
transaction begins with another epoch and with sequences from 0 (KIP-360).

The owner of an instance holds a lock during each call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from kafkalog.client.errors import ClientError
from kafkalog.client.transactions.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    FencedError,
    TransactionError,
    cannot_be_ended,
)
from kafkalog.client.transactions.requests import ProducerIdentity
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError


class TransactionStateError(ClientError, RuntimeError):
    """A call is wrong in the producer's present state; nothing has changed (Java's IllegalStateException)."""


class TransactionAbortedError(ClientError):
    """The record was not sent, because its transaction was aborted first."""


class State(Enum):
    """The states of a transactional producer; the value is the state's name in messages."""

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
    # The same call again, where the one before it timed out.
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
    """The transactions of one transactional id, as its producer sees them.

    Attributes:
        error: The error that led to one of the two error states, or because of which the transaction is being aborted.
        partitions: The partitions that the coordinator has added to the transaction.
        began: Whether the coordinator has begun the transaction: a partition or a group is in it.
        in_doubt: Whether the coordinator may have begun the transaction, because an answer was lost.
        end_known: Whether the coordinator has ended the transaction since then.
        needs_epoch: Whether a partition's sequence is uncertain, so that the next transaction needs another epoch.
        unsure_offsets: Groups and partitions whose offsets may or may not be in the transaction, because sending them
            did not end.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.identity = ProducerIdentity()
        self.error: TransactionError | None = None
        self.partitions: set[TopicPartition] = set()
        self.began = False
        self.in_doubt = False
        self.end_known = False
        self.needs_epoch = False
        self.unsure_offsets: set[tuple[str, TopicPartition]] = set()

    # The user's calls

    def begin_init(self) -> None:
        """Enter `init_transactions`: a producer id will be requested."""
        self._enter(State.INITIALIZING)

    def initialized(self, identity: ProducerIdentity) -> None:
        """Note the new producer id."""
        self.identity = identity
        self._reset()

    def begin(self) -> None:
        """Enter `begin_transaction`. The coordinator learns of the transaction with the first partition or group."""
        self._enter(State.IN_TRANSACTION)

    def begin_commit(self) -> None:
        """Enter `commit_transaction`: no more records are taken, and the present ones are delivered."""
        self._check_offsets("commit")
        self._enter(State.COMMITTING)

    def begin_abort(self) -> None:
        """Enter `abort_transaction`: records that were not sent will not be sent."""
        self._enter(State.ABORTING)

    def detach(self) -> None:
        """Leave the transaction to another process."""
        self._check_offsets("detach")
        self._enter(State.DETACHED)

    def reattach(self) -> None:
        """Take the transaction back, because `detach` has failed."""
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
        """Raise the error where records could not be delivered, so that the transaction cannot be committed."""
        self._check_error("commit")

    # Events

    def added(self, partitions: Collection[TopicPartition]) -> None:
        """Note that the coordinator has added these partitions."""
        self.partitions.update(partitions)
        self.began = True

    def offsets_added(self) -> None:
        """Note that the coordinator has added a group."""
        self.began = True

    def doubt_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that the group's offsets of these partitions are being sent; until that ends there is no commit."""
        self.unsure_offsets.update((group, partition) for partition in partitions)

    def offsets_settled(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that the group's coordinator has the offsets, or has refused them."""
        self.unsure_offsets.difference_update((group, partition) for partition in partitions)

    def doubt(self) -> None:
        """Note that an answer was lost that would have said that the transaction began."""
        self.in_doubt = True

    def end_answered(self) -> None:
        """Note that the coordinator has ended the transaction; another epoch may still be needed."""
        self.end_known = True

    def ended(self, identity: ProducerIdentity | None = None) -> None:
        """Note that the transaction has ended, with another epoch if one was needed."""
        if identity is not None:
            self.identity = identity
        self._reset()

    def fail(self, error: Exception, *, batch: bool = False) -> None:
        """Note an error in the transaction; `batch` says that it is of a batch that a leader may have."""
        self.needs_epoch |= batch
        found = self._sort(error)
        if isinstance(found, FatalTransactionError):
            if self.state is not State.FATAL_ERROR:
                self.state, self.error = State.FATAL_ERROR, found
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING, State.DETACHED):
            self.state, self.error = State.ABORTABLE_ERROR, found

    # Queries

    @property
    def open(self) -> bool:
        """Return whether a transaction is open and can be ended."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR)

    @property
    def doomed(self) -> bool:
        """Return whether no record can be delivered any more, including those that wait for a retry."""
        return self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)

    @property
    def withdrawing(self) -> bool:
        """Return whether records that were never sent must not be sent."""
        return self.doomed or self.state is State.ABORTING

    @property
    def must_end(self) -> bool:
        """Return whether the coordinator must be told how the transaction ends."""
        return (self.began or self.in_doubt) and not self.end_known and not cannot_be_ended(self.error)

    @property
    def must_raise_epoch(self) -> bool:
        """Return whether another epoch is needed before the next transaction."""
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
            # A leader's INVALID_PRODUCER_EPOCH may not matter; the coordinator decides that (KIP-588).
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
