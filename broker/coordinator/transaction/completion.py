"""Carry out a stored decision: write a marker to every partition of the transaction, then store the Complete state.

Failures are retried until they succeed or the partition moves to another leader. A deleted partition needs no marker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from broker.coordinator.state_log import StateRecord
from broker.coordinator.transaction.machine import TopicPartition, Transaction, TransactionMachine, TransactionState
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.partition_transactions import PartitionTransactions
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.zookeeper.interface import ZooKeeperError
from kafkalog.protocol.errors import (
    InvalidProducerEpochError,
    TransactionCoordinatorFencedError,
    UnsupportedForMessageFormatError,
)

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.05, 5.0
"""The pause between attempts to write a marker or record, in seconds; it doubles each time."""
MARKERS_AT_ONCE = 64
"""The number of markers of a transaction that are appended before other requests get their turn."""

IsAbsent = Callable[[str, int], Awaitable[bool]]
"""Asks whether the cluster has no such partition. Raises OSError and ZooKeeperError where that cannot be said."""


def _look_at(write: asyncio.Future[int]) -> None:
    """Take note of the error of a write. It may fail when nobody waits for it any more, because the broker stops."""
    if not write.cancelled():
        write.exception()


class _Marking:
    """The markers of one transaction.

    Attributes:
        writes: the writes that have not ended.
    """

    def __init__(self, machine: TransactionMachine, marker: Marker) -> None:
        self.machine = machine
        self.marker = marker
        self.writes: dict[TopicPartition, asyncio.Future[int]] = {}
        self._told: set[TopicPartition] = set()

    def level_for(self, partition: TopicPartition) -> int:
        """Return the level at which to log that a partition has no marker yet: a warning the first time."""
        level = logging.DEBUG if partition in self._told else logging.WARNING
        self._told.add(partition)
        return level


class Completion:
    """Carries out the decisions of a coordinator. Used on the event loop's thread only.

    Args:
        append: stores records in a partition of `__transaction_state`.
        write_marker: as `markers.MarkerWriter.write`.
        is_known: whether this broker knows a partition.
        is_absent: asks whether the cluster has no such partition, where this broker knows none.

    Attributes:
        under_way: transactions whose markers are being written.
        unstored: transactions with all markers written, whose Complete state could not be stored yet.
    """

    def __init__(
        self,
        append: Callable[[int, Iterable[StateRecord]], asyncio.Future[int]],
        write_marker: Callable[[str, int, Marker], asyncio.Future[int]],
        is_known: Callable[[str, int], bool],
        is_absent: IsAbsent,
    ) -> None:
        self._append = append
        self._write_marker = write_marker
        self._is_known = is_known
        self._is_absent = is_absent
        self.under_way: dict[TransactionMachine, None] = {}
        self.unstored = 0

    @property
    def missing_markers(self) -> int:
        """Number of markers that are still to be written. Any thread may read it."""
        return sum(len(machine.unmarked) for machine in list(self.under_way))

    async def run(
        self,
        transactions: PartitionTransactions,
        machine: TransactionMachine,
        change: Transaction,
        is_current: Callable[[], bool],
    ) -> None:
        """Carry out the decision of `machine`, and store `change`, its Complete state.

        Give up once `transactions` are no longer those of the present leadership.
        """
        self.under_way[machine] = None
        try:
            if await self._mark_surely(transactions, machine, is_current) and await self._store(
                transactions, machine, change, is_current
            ):
                machine.stored(change)
        except TransactionCoordinatorFencedError as error:
            # The coordinator with the greater epoch finishes it.
            logger.error("transactional id %s is left as it is: %s", machine.transactional_id, error)
        finally:
            self.under_way.pop(machine, None)

    async def _mark_surely(
        self, transactions: PartitionTransactions, machine: TransactionMachine, is_current: Callable[[], bool]
    ) -> bool:
        """Do what `_mark_all` does, and again after an error that nobody foresaw.

        The producer begins no other transaction before this one is complete. A marker may be written twice.
        """
        while True:
            try:
                return await self._mark_all(transactions, machine, is_current)
            except TransactionCoordinatorFencedError:
                raise
            except Exception:
                logger.exception("transactional id %s: its markers are tried again", machine.transactional_id)
                await asyncio.sleep(LAST_RETRY_SECONDS)

    async def _mark_all(
        self, transactions: PartitionTransactions, machine: TransactionMachine, is_current: Callable[[], bool]
    ) -> bool:
        """Write the markers; return False when the partition is no longer led here in the same epoch."""
        decided = machine.current
        committed = decided.state is TransactionState.PREPARE_COMMIT
        marker = Marker(decided.producer_id, decided.producer_epoch, committed, transactions.epoch)
        marking = _Marking(machine, marker)
        delay = FIRST_RETRY_SECONDS
        while is_current():
            await self._begin(marking)
            # A leader that is slow, or away, must not hold up the markers in other partitions.
            waiting = [write for write in marking.writes.values() if not write.done()]
            if waiting:
                await asyncio.wait(waiting, timeout=delay)
            self._end(marking)
            if not machine.unmarked:
                return is_current()
            if not marking.writes:
                await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_SECONDS)
        return False

    async def _begin(self, marking: _Marking) -> None:
        """Begin to write the marker in every partition that lacks it and can be written."""
        wanted = sorted(marking.machine.unmarked.difference(marking.writes))
        for number, partition in enumerate(wanted, 1):
            if not self._is_known(*partition):
                await self._drop_if_absent(marking, partition)
                continue
            write = marking.writes[partition] = self._write_marker(*partition, marking.marker)
            write.add_done_callback(_look_at)
            if number % MARKERS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _end(self, marking: _Marking) -> None:
        """Take the results of the writes that have ended."""
        ended = {partition: write.exception() for partition, write in marking.writes.items() if write.done()}
        for partition, error in ended.items():
            del marking.writes[partition]
            if error is None or self._needs_none(marking, partition, error):
                marking.machine.unmarked.discard(partition)
        fenced = next((error for error in ended.values() if isinstance(error, TransactionCoordinatorFencedError)), None)
        if fenced is not None:
            raise fenced

    async def _drop_if_absent(self, marking: _Marking, partition: TopicPartition) -> None:
        """Write no marker to a partition that was deleted. The controller may not have told of another one yet."""
        machine = marking.machine
        text = "transactional id %s: retrying the marker in %s-%d: %s"
        try:
            is_absent = await self._is_absent(*partition)
        except (OSError, ZooKeeperError) as error:
            level = marking.level_for(partition)
            logger.log(level, text, machine.transactional_id, *partition, f"it may have been deleted: {error}")
            return
        if is_absent:
            logger.info(
                "transactional id %s: %s-%d was deleted, and needs no marker", machine.transactional_id, *partition
            )
            machine.unmarked.discard(partition)
        else:
            level = marking.level_for(partition)
            logger.log(level, text, machine.transactional_id, *partition, "the controller has not told of it yet")

    def _needs_none(self, marking: _Marking, partition: TopicPartition, error: BaseException) -> bool:
        """Return whether a partition that refused the marker needs none: it has no open records of this transaction."""
        if isinstance(error, UnsupportedForMessageFormatError):
            # It never received a record of a transaction.
            return True
        (topic, index), transactional_id = partition, marking.machine.transactional_id
        if isinstance(error, InvalidProducerEpochError):
            # The marker that raised the epoch has ended any open transaction.
            logger.warning("transactional id %s: no marker in %s-%d: %s", transactional_id, topic, index, error)
            return True
        text = "transactional id %s: retrying the marker in %s-%d: %r"
        logger.log(marking.level_for(partition), text, transactional_id, topic, index, error)
        return False

    async def _store(
        self,
        transactions: PartitionTransactions,
        machine: TransactionMachine,
        change: Transaction,
        is_current: Callable[[], bool],
    ) -> bool:
        """Store the Complete state; return False when the partition is no longer led here in the same epoch."""
        record = StateRecord(encode_key(machine.transactional_id), encode_value(change))
        delay = FIRST_RETRY_SECONDS
        self.unstored += 1
        try:
            while is_current():
                try:
                    await self._append(transactions.index, [record])
                except Exception as error:
                    logger.log(
                        logging.WARNING if delay == FIRST_RETRY_SECONDS else logging.DEBUG,
                        "transactional id %s: %s is stored again: %r",
                        machine.transactional_id, change.state.title, error,
                    )  # fmt: skip
                else:
                    return is_current()
                await asyncio.sleep(delay)
                delay = min(2 * delay, LAST_RETRY_SECONDS)
        finally:
            self.unstored -= 1
        return False
