"""Test what a producer believes of the coordinator after requests that failed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.sender.sender import Sender
from kafkalog.client.producer.transactions.transaction_calls import TransactionCalls
from kafkalog.client.producer.transactions.transaction_manager import TransactionStateError
from kafkalog.client.transactions.requests import ProducerIdentity
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    UnknownTopicOrPartitionError,
)

TP = TopicPartition("t", 0)
CONFIG = ProducerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x"})


@pytest.fixture
def sender() -> Sender:
    """Return a sender that was not started, and whose transaction is open."""
    made = Sender(CONFIG, Cluster(CONFIG.client))
    assert made.registration is not None
    transactions = made.registration.transactions
    transactions.begin_init()
    transactions.initialized(ProducerIdentity(1, 0))
    transactions.begin()
    return made


def raising(error: BaseException) -> Any:
    def call(*arguments: Any, **options: Any) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "may_have_begun"),
    [
        (ConnectionFailedError("the connection ended"), True),
        (ClientTimeoutError("no answer"), True),
        (CoordinatorNotAvailableError("it did not see the write replicated"), True),
        (NotCoordinatorError("it does not lead the partition any more, as it found by writing"), True),
        (CoordinatorLoadInProgressError("it looks at nothing yet"), False),
        (ConcurrentTransactionsError("the one before is not complete"), False),
        (UnknownTopicOrPartitionError("there is no such topic"), False),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_a_coordinator_may_have_begun_what_it_could_not_confirm(
    error: Exception, may_have_begun: bool, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log may have the write all the same (`TransactionStateManager.appendTransactionToLog`).

    A transaction that nobody ends would be aborted by its time-out, and its producer fenced.
    """
    assert sender.registration is not None
    monkeypatch.setattr(sender.registration.requests, "add_partitions_now", raising(error))
    sender.registration.register([TP], time.monotonic() + 1)
    assert sender.registration.transactions.must_end is may_have_begun


@pytest.mark.parametrize("step", ["add_offsets", "commit_offsets"])
@pytest.mark.parametrize("error", [AuthenticationError("the credentials have expired"), KeyboardInterrupt()])
def test_there_is_no_commit_without_offsets_whose_answer_is_missing(
    error: BaseException, step: str, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = TransactionCalls(sender, 1.0)
    for each in ("add_offsets", "commit_offsets"):
        monkeypatch.setattr(calls._requests, each, lambda *arguments, **options: None)
    monkeypatch.setattr(calls._requests, step, raising(error))
    with pytest.raises(type(error)):
        calls.send_offsets({TP: 5}, "g")
    with pytest.raises(TransactionStateError, match="sending the offsets of g did not end"):
        calls.commit()
    assert calls.transactions.must_end
