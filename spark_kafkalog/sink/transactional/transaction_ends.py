"""Commits and aborts transactions of tasks on behalf of the tasks, and finds those that were left open."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ClientError
from kafkalog.client.transactions.errors import AbortableTransactionError, FatalTransactionError, TransactionError
from kafkalog.client.transactions.requests import end_transaction
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from spark_kafkalog import faults
from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction
from spark_kafkalog.sink.transactional.transactional_ids import is_task_name

T = TypeVar("T")

THREADS = 16
ONGOING = "Ongoing"
_GONE = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""A coordinator's errors for a transaction that was aborted, whose id is in use again, or that was forgotten."""
logger = logging.getLogger(__name__)


def commit_all(cluster: Cluster, transactions: Sequence[TaskTransaction], deadline: float) -> list[TaskTransaction]:
    """Commit transactions, and return those that cannot be committed any more. Committing one twice is harmless.

    Raises:
        KafkaError, ClientError: A commit has failed for another reason. All transactions were tried before.
    """

    def commit(transaction: TaskTransaction) -> bool:
        try:
            end_transaction(cluster, *transaction, True, deadline=deadline)
        except (FatalTransactionError, AbortableTransactionError) as error:
            if _code_of(error) in _GONE:
                return False
            raise
        return True

    done = [commit(each) for each in transactions[:1]]
    faults.point("between-commits")
    done += _each(commit, transactions[1:])
    return [each for each, is_done in zip(transactions, done, strict=True) if not is_done]


def abort_all(cluster: Cluster, transactions: Sequence[TaskTransaction], deadline: float) -> None:
    """Abort transactions as far as possible; brokers abort the rest after `transaction.timeout.ms`."""

    def abort(transaction: TaskTransaction) -> None:
        try:
            end_transaction(cluster, *transaction, False, deadline=deadline)
        except (KafkaError, ClientError) as error:
            if _code_of(error) not in _GONE:
                logger.warning("the transaction of %s is left to time out: %s", transaction.transactional_id, error)

    _each(abort, transactions)


def open_transactions(
    cluster: Cluster, prefix: str, deadline: float, known: Container[str] = ()
) -> list[TaskTransaction]:
    """Return the open transactions of tasks, as far as brokers list them until the deadline; possibly none.

    Those whose ids are `known` are left out. Brokers list transactions since Kafka 3.0 (KIP-664), and only those whose
    ids the user may describe.
    """
    found: list[TaskTransaction] = []
    coordinators = Coordinators(cluster)
    try:
        for broker in cluster.metadata([], refresh=True, deadline=deadline).brokers:
            for name in _open_names(cluster, broker, deadline):
                if name not in known and is_task_name(prefix, name):
                    found.extend(_described(coordinators, name, deadline))
    except (KafkaError, ClientError) as error:
        logger.info("of what earlier tasks left open, the rest is left for later: %s", error)
    return found


def _open_names(cluster: Cluster, node_id: int, deadline: float) -> list[str]:
    request = ListTransactionsRequest(state_filters=[ONGOING])
    timeout = min(cluster.config.request_timeout, max(deadline - time.monotonic(), 0.001))
    answer: ListTransactionsResponse = cluster.request_to(node_id, request, timeout=timeout)
    if answer.error_code:
        raise error_for(answer.error_code)
    return [each.transactional_id for each in answer.transaction_states]


def _described(coordinators: Coordinators, name: str, deadline: float) -> Iterator[TaskTransaction]:
    answer: DescribeTransactionsResponse = coordinators.request(
        CoordinatorType.TRANSACTION,
        name,
        DescribeTransactionsRequest(transactional_ids=[name]),
        _check_described,
        deadline=deadline,
    )
    for each in answer.transaction_states:
        if each.transaction_state == ONGOING:
            yield TaskTransaction(each.transactional_id, each.producer_id, each.producer_epoch)


def _check_described(answer: DescribeTransactionsResponse) -> None:
    for each in answer.transaction_states:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
            raise error_for(each.error_code)


def _code_of(error: BaseException) -> ErrorCode | None:
    cause = error.__cause__ if isinstance(error, TransactionError) else error
    return cause.code if isinstance(cause, KafkaError) else None


def _each(act: Callable[[TaskTransaction], T], transactions: Sequence[TaskTransaction]) -> list[T]:
    """Return the results of `act` for each; all are tried before the first error is raised."""
    with ThreadPoolExecutor(max(min(THREADS, len(transactions)), 1)) as pool:
        futures = [pool.submit(act, each) for each in transactions]
    return [future.result() for future in futures]
