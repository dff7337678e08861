"""Errors of transactions, sorted by what can still be done: abort the transaction, or give the producer up.

Retriable errors are not among them. Such an error is retried until the call's deadline, which raises
ClientTimeoutError; then the same call may be made again. The other errors are sorted as Java's TransactionManager sorts
them (KIP-98, KIP-360, KIP-588, KIP-890).
"""

from __future__ import annotations

from enum import Enum

from kafkalog.client.errors import ClientError
from kafkalog.protocol.errors import ErrorCode, KafkaError, ProducerFencedError

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Old brokers answer the second code where newer ones answer the first."""
_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        # Some brokers answer it where Apache Kafka answers the code above.
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
_FATAL_FOR_PARTITIONS = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_UNSURE = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class TransactionError(ClientError):
    """A transaction cannot go on; `__cause__` is the error that stopped it."""


class AbortableTransactionError(TransactionError):
    """The current transaction can only be aborted. Then the producer can begin another one."""


class FatalTransactionError(TransactionError):
    """The producer cannot be used any more. Another producer with the same transactional id may go on."""


class FencedError(FatalTransactionError, ProducerFencedError):
    """Another producer with the same transactional id has taken over. This one can only be closed."""


class Operation(Enum):
    """The operations of a transaction; the value is the operation's name in messages."""

    INIT = "getting a producer id"
    ADD_PARTITIONS = "adding partitions"
    ADD_OFFSETS = "adding a group's offsets"
    COMMIT_OFFSETS = "committing offsets"
    END = "ending the transaction"


def transaction_error(operation: Operation, error: KafkaError, transactional_id: str) -> TransactionError:
    """Make the error to raise for one that a coordinator reported and that is not retriable."""
    code = error.code
    if code in _FENCED:
        found: TransactionError = FencedError(
            f"transactional.id {transactional_id}: a newer producer with this id has taken over ({code.name})"
        )
    else:
        tolerant = operation is Operation.ADD_PARTITIONS and code not in _FATAL_FOR_PARTITIONS
        # The topic was deleted. A transaction without its offsets can succeed.
        tolerant |= operation is Operation.COMMIT_OFFSETS and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kind = AbortableTransactionError if code in _ABORTABLE or tolerant else FatalTransactionError
        found = kind(f"transactional.id {transactional_id}: {operation.value} failed: {error}")
    found.__cause__ = error
    return found


def needs_new_epoch(error: BaseException | None) -> bool:
    """Tell whether the coordinator has forgotten the producer: then another epoch is needed (KIP-360)."""
    cause = error.__cause__ if isinstance(error, TransactionError) else error
    return isinstance(cause, KafkaError) and cause.code in _UNSURE


def cannot_be_ended(error: BaseException | None) -> bool:
    """Tell whether the coordinator refuses to end the transaction because the producer id is out of date."""
    cause = error.__cause__ if isinstance(error, TransactionError) else error
    return isinstance(cause, KafkaError) and cause.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
