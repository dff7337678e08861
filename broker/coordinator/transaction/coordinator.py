"""The transaction coordinator of this broker: partitions loaded from `__transaction_state`, and their changes stored.

A request computes a change (`machine`), stores it, and puts it in force. A stored decision is answered at once, and
carried out after the answer (`completion`). A partition is loaded when this broker begins to lead it, and decided
transactions are completed then. Its coordinator epoch is the partition's leader epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Protocol

from broker.coordinator.state_log import LOADS_AT_ONCE, RETRY_LOAD_MS, Shortage, StateBatch, StateRecord
from broker.coordinator.transaction import expiry
from broker.coordinator.transaction.completion import Completion, IsAbsent
from broker.coordinator.transaction.machine import (
    NO_PRODUCER_ID,
    Producer,
    TopicPartition,
    Transaction,
    TransactionMachine,
    TransactionState,
)
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.partition_transactions import Owner, PartitionTransactions
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.coordinator.transaction.settings import TransactionSettings
from broker.coordinator.transaction.waiting import WaitingDecisions
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    MessageTooLargeError,
    NotCoordinatorError,
    RecordListTooLargeError,
    RequestTimedOutError,
    TransactionalIdNotFoundError,
    UnknownServerError,
)
from kafkalog.protocol.primitives import fits_string

logger = logging.getLogger(__name__)


class Log(Protocol):
    """The log of the state, as `broker.coordinator.state_log.StateLog` implements it."""

    @property
    def partitions(self) -> int | None: ...
    def partition_for(self, key: str) -> int: ...
    def leads(self, index: int) -> Owner | None: ...
    def replay(self, index: int, apply: Callable[[list[StateBatch]], None]) -> AsyncIterator[None]: ...
    def when_end_is_replicated(self, index: int, then: Callable[[], None]) -> None: ...
    def shortage(self, index: int) -> Shortage | None: ...
    def most_bytes(self, index: int) -> int: ...
    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]: ...
    async def ensure(self) -> int: ...


class TransactionCoordinator:
    """The transaction coordinator. Used on the event loop's thread only.

    Args:
        write_marker: as `markers.MarkerWriter.write`.
        is_known: as in `Completion`.
        is_absent: as in `Completion`.
        allocate_producer_id: a fresh producer id.
        reserve_producer_ids: reserves a producer id and all smaller ones, so that they are not allocated again.

    Attributes:
        loads: partitions that were loaded.
        load_ms: the milliseconds that all of them took.
        completion: carries out decisions.
        waiting: the decisions that are not replicated yet.
    """

    def __init__(
        self,
        *,
        log: Log,
        write_marker: Callable[[str, int, Marker], asyncio.Future[int]],
        is_known: Callable[[str, int], bool],
        is_absent: IsAbsent,
        allocate_producer_id: Callable[[], Awaitable[int]],
        reserve_producer_ids: Callable[[int], Awaitable[None]],
        settings: Callable[[], TransactionSettings],
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._allocate = allocate_producer_id
        self._reserve = reserve_producer_ids
        self._settings = settings
        self._now_ms = now_ms
        self._partitions: dict[int, PartitionTransactions] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(LOADS_AT_ONCE)
        self._failed: dict[int, tuple[Owner | None, int, int]] = {}
        """Partitions that could not be loaded: the owner, since when it is led, and when that was."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._active = False
        self.loads, self.load_ms = 0, 0
        self.completion = Completion(log.append, write_marker, is_known, is_absent)
        self.waiting = WaitingDecisions(log.shortage)

    # -- starting and stopping

    def start(self) -> None:
        """Load the stored transactions in the background, and complete those that were decided."""
        self._active = True
        for index in range(self._log.partitions or 0):
            self.role_changed(index)
        self._spawn(self._every(lambda: RETRY_LOAD_MS, self.load_again))
        self._spawn(self._every(lambda: self._settings().abort_interval_ms, self.abort_timed_out))
        self._spawn(self._every(lambda: self._settings().remove_expired_interval_ms, self.remove_expired))

    async def stop(self) -> None:
        """Cancel the work that is under way; the next start takes it up again."""
        self._active = False
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception:
                logger.exception("work of the transaction coordinator failed")

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _every(self, interval_ms: Callable[[], int], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms() / 1000)
            try:
                await work()
            except Exception:
                logger.exception("work of the transaction coordinator failed; retrying")

    async def ensure(self) -> int:
        """Create `__transaction_state` if it does not exist; return its number of partitions.

        Raises:
            CoordinatorNotAvailableError: it cannot be made.
        """
        return await self._log.ensure()

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` whose leader coordinates a transactional id.

        Raises:
            CoordinatorNotAvailableError: there is no such topic yet; see `ensure`.
        """
        return self._log.partition_for(transactional_id)

    # -- partitions

    def role_changed(self, index: int) -> None:
        """Forget a partition that is not led here any more; begin to load one that is led here anew."""
        if self._active:
            # No request waits here for the result, so the errors concern nobody.
            with contextlib.suppress(KafkaError):
                self._partition(index)

    def _partition(self, index: int) -> PartitionTransactions:
        """Return the loaded transactions of a partition.

        Raises:
            CoordinatorNotAvailableError: the broker is starting or stopping.
            NotCoordinatorError: the partition is not led here, or its log cannot be used, or could not be loaded.
            CoordinatorLoadInProgressError: it is being loaded; that begins here where it has not.
        """
        if not self._active:
            raise CoordinatorNotAvailableError
        owner = self._log.leads(index)
        transactions = self._partitions.get(index)
        if owner is None:
            self._partitions.pop(index, None)
            raise NotCoordinatorError
        if transactions is not None and transactions.is_of(owner):
            return transactions
        self._partitions.pop(index, None)
        if owner.log.log_end_offset == owner.log.log_start_offset and index not in self._loading:
            transactions = self._partitions[index] = PartitionTransactions(index, owner.leader_epoch, owner)
            return transactions
        if self._has_failed(index, owner):
            raise NotCoordinatorError
        if index not in self._loading:
            task = self._loading[index] = self._spawn(
                self._load(PartitionTransactions(index, owner.leader_epoch, owner))
            )
            task.add_done_callback(lambda _: self._loaded(index))
        raise CoordinatorLoadInProgressError

    def _loaded(self, index: int) -> None:
        del self._loading[index]
        # The loaded state was not taken over if the role of the partition has changed meanwhile.
        self.role_changed(index)

    def _has_failed(self, index: int, owner: Owner) -> bool:
        """Return whether loading has failed so recently that it is not retried yet."""
        failed = self._failed.get(index)
        if failed is None:
            return False
        failed_owner, led_since, failed_ms = failed
        same = failed_owner is owner and led_since == owner.led_since
        if same and 0 <= self._now_ms() - failed_ms < RETRY_LOAD_MS:
            return True
        del self._failed[index]
        return False

    def _is_current(self, transactions: PartitionTransactions) -> bool:
        index = transactions.index
        return self._partitions.get(index) is transactions and transactions.is_of(self._log.leads(index))

    async def _load(self, transactions: PartitionTransactions) -> None:
        try:
            async with self._turns:
                began = self._now_ms()
                async for _ in self._log.replay(transactions.index, transactions.replay):
                    # On a worker: nothing else uses these transactions before they are loaded.
                    pass
            # Another registry may have allocated them, such as that of the Apache Kafka whose directory this was.
            await self._reserve(transactions.largest_producer_id)
        except Exception as error:
            self._failed[transactions.index] = transactions.owner, transactions.led_since, self._now_ms()
            logger.error("transactions of __transaction_state-%d could not be loaded: %s", transactions.index, error)
            return
        if not transactions.is_of(self._log.leads(transactions.index)):
            return
        now = self._now_ms()
        self.loads += 1
        self.load_ms += now - began
        self._partitions[transactions.index] = transactions
        logger.info(
            "loaded %d transactional ids from __transaction_state-%d in %d ms",
            len(transactions.machines),
            transactions.index,
            now - began,
        )
        # If this broker failed before a decision is replicated, its markers would remain without it.
        self.waiting.begin(transactions)
        self._log.when_end_is_replicated(transactions.index, lambda: self._carry_out_decided(transactions))
        if transactions in self.waiting:
            self._spawn(self.waiting.watch(transactions, lambda: self._is_current(transactions)))

    def _carry_out_decided(self, transactions: PartitionTransactions) -> None:
        self.waiting.end(transactions)
        if self._active and self._is_current(transactions):
            for machine in transactions.decided():
                self._carry_out(transactions, machine)

    def _find(self, transactional_id: str) -> tuple[PartitionTransactions, TransactionMachine | None]:
        try:
            index = self._log.partition_for(transactional_id)
        except CoordinatorNotAvailableError as error:
            raise NotCoordinatorError from error
        transactions = self._partition(index)
        return transactions, transactions.machines.get(transactional_id)

    def _require(self, transactional_id: str) -> tuple[PartitionTransactions, TransactionMachine]:
        """Find a transaction.

        Raises:
            InvalidRequestError: there is no transactional id.
            InvalidProducerIdMappingError: there is no such transaction.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
        """
        if not transactional_id:
            raise InvalidRequestError
        transactions, machine = self._find(transactional_id)
        if machine is None:
            raise InvalidProducerIdMappingError
        return transactions, machine

    # -- requests

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None = None
    ) -> Producer:
        """Return a producer id and epoch; an earlier producer is fenced, and its transaction aborted.

        Raises:
            InvalidRequestError: the transactional id is empty, or too long for a record.
            InvalidTransactionTimeoutError: not between 1 and `transaction.max.timeout.ms`.
            ConcurrentTransactionsError: the last transaction is still being ended; the producer asks again.
            ProducerFencedError: `expected` is not the present producer.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
            KafkaStorageError: no producer id could be allocated.
        """
        if not transactional_id or not fits_string(transactional_id):
            raise InvalidRequestError
        if not 0 < timeout_ms <= self._settings().max_timeout_ms:
            raise InvalidTransactionTimeoutError
        transactions, machine = self._find(transactional_id)
        fresh_id = NO_PRODUCER_ID
        if machine is None or machine.needs_producer_id(expected):
            fresh_id = await self._allocate()
            transactions, machine = self._find(transactional_id)
            if machine is None:
                machine = TransactionMachine.new(transactional_id, fresh_id, timeout_ms, self._now_ms())
                transactions.machines[transactional_id] = machine
        change = machine.init(timeout_ms, expected, fresh_id, self._now_ms())
        if change.state is TransactionState.PREPARE_ABORT:
            await self._decide(transactions, machine, change)
            raise ConcurrentTransactionsError
        await self._store(transactions, machine, change)
        logger.info(
            "initialized transactional id %s with producer id %d and epoch %d on __transaction_state-%d",
            transactional_id,
            change.producer_id,
            change.producer_epoch,
            transactions.index,
        )
        return Producer(change.producer_id, change.producer_epoch)

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> None:
        """Add partitions to the producer's transaction, beginning one if none is ongoing.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidProducerIdMappingError: there is no such transactional id, or the producer id is not its.
            ProducerFencedError: the epoch is not the present one.
            ConcurrentTransactionsError: another change is under way, such as the end of the last transaction.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
        """
        transactions, machine = self._require(transactional_id)
        await self._store(transactions, machine, machine.add(producer, partitions, self._now_ms()))

    async def end(self, transactional_id: str, producer: Producer, *, committed: bool) -> None:
        """Decide the producer's transaction; its markers are written after that.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidProducerIdMappingError: there is no such transactional id, or the producer id is not its.
            ProducerFencedError: the epoch is not the present one.
            ConcurrentTransactionsError: another change is under way.
            InvalidTxnStateError: there is no transaction, or it was decided the other way.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
        """
        transactions, machine = self._require(transactional_id)
        change = machine.end(producer, committed=committed, now_ms=self._now_ms())
        if change.state.is_decided:
            await self._decide(transactions, machine, change)
        else:
            await self._store(transactions, machine, change)

    def is_here(self, transactional_id: str) -> bool:
        """Return whether this broker coordinates a transactional id, or is about to."""
        try:
            return self._log.leads(self._log.partition_for(transactional_id)) is not None
        except CoordinatorNotAvailableError:
            return False

    def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """Check that the producer's transaction covers a partition; see `TransactionMachine.verify`.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidProducerIdMappingError: there is no such transactional id, or the producer id is not its.
            InvalidProducerEpochError: the epoch is not the present one.
            ConcurrentTransactionsError: the transaction is being ended.
            TransactionAbortableError: the partition was not added to it.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
        """
        self._require(transactional_id)[1].verify(producer, partition)

    def describe(self, transactional_id: str) -> TransactionMachine:
        """Return the state of a transactional id.

        Raises:
            InvalidRequestError: it is empty.
            TransactionalIdNotFoundError: there is no such transactional id.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see `_partition`.
        """
        if not transactional_id:
            raise InvalidRequestError
        machine = self._find(transactional_id)[1]
        if machine is None or machine.pending is TransactionState.DEAD:
            raise TransactionalIdNotFoundError
        return machine

    def all(self) -> list[TransactionMachine]:
        """Return every transactional id that is coordinated here.

        Raises:
            CoordinatorNotAvailableError: the broker is starting or stopping.
            CoordinatorLoadInProgressError: some are being loaded.
        """
        if not self._active:
            raise CoordinatorNotAvailableError
        if self._loading:
            raise CoordinatorLoadInProgressError
        return [
            machine
            for transactions in self._partitions.values()
            if self._is_current(transactions)
            for machine in transactions
        ]

    # -- storing

    async def _store(
        self, transactions: PartitionTransactions, machine: TransactionMachine, change: Transaction
    ) -> None:
        """Store a change, and put it in force.

        Raises:
            CoordinatorNotAvailableError: it could not be stored now.
            NotCoordinatorError: it could not be stored here.
            UnknownServerError: it is too large.
        """
        try:
            record = StateRecord(encode_key(machine.transactional_id), encode_value(change))
            await self._log.append(transactions.index, [record])
        except Exception as error:
            machine.failed()
            logger.info(
                "%s of transactional id %s could not be stored: %s", change.state.title, machine.transactional_id, error
            )
            if isinstance(error, RequestTimedOutError):
                raise CoordinatorNotAvailableError from error
            if isinstance(error, MessageTooLargeError | RecordListTooLargeError):
                raise UnknownServerError from error
            raise
        if not self._is_current(transactions):
            # The next leader finds the stored change when it loads the partition.
            raise NotCoordinatorError
        machine.stored(change)

    async def _decide(
        self, transactions: PartitionTransactions, machine: TransactionMachine, change: Transaction
    ) -> None:
        await self._store(transactions, machine, change)
        self._carry_out(transactions, machine)

    def _carry_out(self, transactions: PartitionTransactions, machine: TransactionMachine) -> None:
        """Have the markers of a stored decision written, behind other work."""
        change = machine.complete(self._now_ms())
        self._spawn(self.completion.run(transactions, machine, change, lambda: self._is_current(transactions)))

    # -- time

    async def load_again(self) -> None:
        """Begin to load again what could not be loaded `RETRY_LOAD_MS` ago: no request may come for it."""
        for index in range(self._log.partitions or 0):
            self.role_changed(index)

    async def abort_timed_out(self) -> None:
        """Abort the transactions that are open for longer than their time-out, fencing their producers."""
        due = [(each, machines) for each in self._partitions.values() if (machines := each.timed_out(self._now_ms()))]
        # Side by side: a partition whose followers do not answer must not delay the others.
        await asyncio.gather(*(self._abort(transactions, machines) for transactions, machines in due))

    async def _abort(self, transactions: PartitionTransactions, machines: Iterable[TransactionMachine]) -> None:
        for machine in machines:
            if not self._is_current(transactions):
                break
            if not machine.has_timed_out(self._now_ms()):
                continue
            logger.info("transactional id %s: its transaction has timed out and is aborted", machine.transactional_id)
            try:
                await self._decide(transactions, machine, machine.fence(self._now_ms()))
            except KafkaError as error:
                logger.warning("transactional id %s could not be aborted: %s", machine.transactional_id, error)

    async def remove_expired(self) -> None:
        """Forget transactional ids that were not used for `transactional.id.expiration.ms`."""
        expiration_ms = self._settings().expiration_ms
        for transactions in list(self._partitions.values()):
            if self._is_current(transactions):
                await expiry.remove(transactions, self._log, self._now_ms, expiration_ms, self._is_current)
