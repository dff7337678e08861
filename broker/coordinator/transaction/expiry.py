"""Remove transactional ids that were not used for `transactional.id.expiration.ms`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.coordinator.batch_sizes import RECORD_BYTES, fitting
from broker.coordinator.state_log import StateRecord
from broker.coordinator.transaction.machine import TransactionMachine
from broker.coordinator.transaction.partition_transactions import PartitionTransactions
from broker.coordinator.transaction.records import encode_key

logger = logging.getLogger(__name__)

TOMBSTONES_AT_ONCE = 200
"""The most transactional ids that are removed in one batch."""


class Log(Protocol):
    """The log of the state, as `coordinator.Log`."""

    def most_bytes(self, index: int) -> int: ...
    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]: ...


async def remove(
    transactions: PartitionTransactions,
    log: Log,
    now_ms: Callable[[], int],
    expiration_ms: int,
    is_current: Callable[[PartitionTransactions], bool],
) -> None:
    """Remove the expired ids of a partition that is led here, some at a time, until it is led elsewhere."""
    expired = transactions.expired(now_ms(), expiration_ms)
    most_bytes = log.most_bytes(transactions.index) if expired else 0
    for batch in fitting(expired, _tombstone_bytes, most_bytes, TOMBSTONES_AT_ONCE):
        if not is_current(transactions):
            break
        now = now_ms()
        if some := [machine for machine in batch if machine.has_expired(now, expiration_ms)]:
            await _forget(transactions, some, log)


async def _forget(transactions: PartitionTransactions, machines: list[TransactionMachine], log: Log) -> None:
    for machine in machines:
        machine.bury()
    tombstones = [StateRecord(encode_key(machine.transactional_id), None) for machine in machines]
    try:
        await log.append(transactions.index, tombstones)
    except Exception as error:
        logger.warning("%d expired transactional ids could not be removed: %s", len(machines), error)
        for machine in machines:
            machine.failed()
        return
    for machine in machines:
        transactions.put(machine.transactional_id, None)


def _tombstone_bytes(machine: TransactionMachine) -> int:
    return RECORD_BYTES + len(machine.transactional_id.encode())
