"""The calls of a transactional producer, and what they ask of the coordinator.

`transaction_manager` says which are allowed. They run in the caller's thread. Meanwhile the sender's thread delivers
records, and adds partitions to the transaction before their first batches are sent. Each call waits up to
`max.block.ms`. After a ClientTimeoutError the same call may be made again, and no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.client.errors import ClientError, ClientTimeoutError, ConfigError
from kafkalog.client.producer.sender.sender import Sender
from kafkalog.client.producer.transactions.transaction_manager import State
from kafkalog.client.transactions.errors import FatalTransactionError, TransactionError
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError

POLL_S = 0.005
logger = logging.getLogger(__name__)


class OpenTransaction(NamedTuple):
    """A transaction whose records are delivered, and that must be ended with `end_transaction`.

    `began` is False where nothing was sent; then there is nothing to end.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    began: bool


class TransactionCalls:
    """The transactional calls of one producer; they take turns."""

    def __init__(self, sender: Sender, max_block: float) -> None:
        assert sender.registration is not None
        self.transactions = sender.registration.transactions
        self._accumulator = sender.accumulator
        self._sender = sender
        self._requests = sender.registration.requests
        self._max_block = max_block
        self._turn = threading.RLock()

    def init(self) -> None:
        """See `Producer.init_transactions`."""
        with self._turn:
            with self._accumulator.lock:
                self.transactions.begin_init()
            try:
                identity = self._requests.init(deadline=self._deadline())
            except Exception as error:
                self._failed(error)
                raise
            with self._accumulator.lock:
                self.transactions.initialized(identity)

    def begin(self) -> None:
        """See `Producer.begin_transaction`."""
        with self._turn, self._accumulator.lock:
            self.transactions.begin()
            self._accumulator.admit()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """See `Producer.send_offsets_to_transaction`."""
        member = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        if member.generation_id > 0 and not member.member_id:
            raise ValueError(f"group {member.group_id}: generation {member.generation_id} of a member without an id")
        with self._turn:
            with self._accumulator.lock:
                self.transactions.check_offsets()
                self.transactions.doubt_offsets(member.group_id, offsets)
            if not offsets:
                return
            deadline = self._deadline()
            try:
                self._requests.add_offsets(member.group_id, deadline=deadline)
                with self._accumulator.lock:
                    self.transactions.offsets_added()
                self._requests.commit_offsets(offsets, member, deadline=deadline)
            except BaseException as error:
                if isinstance(error, TransactionError):
                    with self._accumulator.lock:
                        self.transactions.offsets_settled(member.group_id, offsets)
                self._failed(error)
                raise
            with self._accumulator.lock:
                self.transactions.offsets_settled(member.group_id, offsets)

    def commit(self, deadline: float | None = None) -> None:
        """See `Producer.commit_transaction`; `deadline` (`time.monotonic`) replaces `max.block.ms`."""
        with self._turn:
            deadline = self._deadline() if deadline is None else deadline
            with self._accumulator.lock:
                self.transactions.begin_commit()
                self._accumulator.admit()
            self._deliver(deadline)
            with self._accumulator.lock:
                self.transactions.check_commit()
                must_end = self.transactions.must_end
            if must_end:
                try:
                    self._requests.end(True, deadline=deadline)
                except Exception as error:
                    self._failed(error)
                    raise
            self._ended()

    def abort(self, deadline: float | None = None) -> None:
        """See `Producer.abort_transaction`; `deadline` as in `commit`."""
        with self._turn:
            deadline = self._deadline() if deadline is None else deadline
            with self._accumulator.lock:
                self.transactions.begin_abort()
                self._accumulator.admit()
            self._deliver(deadline)
            self._await_answers(deadline)
            with self._accumulator.lock:
                if self.transactions.state is State.FATAL_ERROR:
                    self.transactions.check_commit()
                must_end, sure = self.transactions.must_end, self.transactions.began
            try:
                if must_end:
                    self._end_aborted(deadline, sure=sure)
                    with self._accumulator.lock:
                        # If the rest times out, the same call is made again, and must not end the transaction again:
                        # its epoch may be gone by then.
                        self.transactions.end_answered()
                # Only now is the outcome of the last batches known.
                raised = None
                if self.transactions.must_raise_epoch:
                    raised = self._requests.raise_epoch(ended=self.transactions.end_known, deadline=deadline)
            except Exception as error:
                self._failed(error)
                raise
            with self._accumulator.lock:
                self.transactions.ended(raised)
                self._accumulator.admit()

    def detach(self) -> OpenTransaction:
        """See `Producer.detach`."""
        with self._turn:
            deadline = self._deadline()
            with self._accumulator.lock:
                self.transactions.detach()
                self._accumulator.admit()
            try:
                self._deliver(deadline)
            except BaseException:
                with self._accumulator.lock:
                    self.transactions.reattach()
                    self._accumulator.admit()
                raise
            with self._accumulator.lock:
                self.transactions.check_commit()
                began = self.transactions.must_end
            return OpenTransaction(self.transactions.transactional_id, *self.transactions.identity, began)

    def close(self, timeout: float | None) -> None:
        """End an open transaction: abort it, unless its commit was under way; then commit it.

        The transaction is left open where another thread's call takes longer than `timeout`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.transactions.open:
            return
        if not self._turn.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            logger.warning(
                "the open transaction of %s is left: a call is under way", self.transactions.transactional_id
            )
            return
        try:
            if self.transactions.state is State.COMMITTING:
                self.commit(deadline)
            elif self.transactions.open:
                self.abort(deadline)
        except (ClientError, KafkaError) as error:
            logger.warning("the open transaction of %s was not ended: %s", self.transactions.transactional_id, error)
        finally:
            self._turn.release()

    # Inside

    def _deadline(self) -> float:
        return time.monotonic() + self._max_block

    def _deliver(self, deadline: float) -> None:
        """Wait until no record is left to send."""
        try:
            self._accumulator.flush(max(deadline - time.monotonic(), 0))
        except ClientTimeoutError as error:
            raise ClientTimeoutError(f"not all records delivered in {self._max_block * 1000:.0f} ms") from error

    def _await_answers(self, deadline: float) -> None:
        """Wait for the answers to batches that were given up.

        A batch that arrives after the transaction's end would begin another one, which nobody ends (KIP-890).
        """
        while self.transactions.needs_epoch and self._sender.busy:
            if time.monotonic() >= deadline:
                raise ClientTimeoutError("brokers have not answered for records that were given up")
            time.sleep(POLL_S)

    def _end_aborted(self, deadline: float, *, sure: bool) -> None:
        try:
            self._requests.end(False, deadline=deadline)
        except FatalTransactionError as error:
            cause = error.__cause__
            if sure or not (isinstance(cause, KafkaError) and cause.code == ErrorCode.INVALID_TXN_STATE):
                raise
            # The request whose answer was lost has never arrived: the coordinator knows no transaction.

    def _ended(self) -> None:
        with self._accumulator.lock:
            self.transactions.ended()
            self._accumulator.admit()

    def _failed(self, error: BaseException) -> None:
        with self._accumulator.lock:
            if isinstance(error, TransactionError):
                self.transactions.fail(error)
            else:
                # The coordinator's answer is missing: because of the time, the connection, a login or a signal.
                self.transactions.doubt()
            self._accumulator.admit()


def needs_id() -> ConfigError:
    """Make the error for a producer without `transactional.id` (Java's IllegalStateException)."""
    return ConfigError("transactions need transactional.id in the producer's configuration")
