"""Decisions that a new leader of `__transaction_state` has loaded, and that wait until they are replicated.

Until then their transactions end in no partition, and readers of committed records wait for them. Where the cause is an
ISR smaller than `min.insync.replicas`, only an operator can end it: the broker's log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.coordinator.state_log import Shortage
from broker.coordinator.transaction.partition_transactions import PartitionTransactions

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""The pause between two looks at an ISR, while decisions wait."""


class WaitingDecisions:
    """Counts the decisions that wait. Used on the event loop's thread only.

    Args:
        shortage: returns what a partition of `__transaction_state` lacks for `min.insync.replicas`, or None.
    """

    def __init__(self, shortage: Callable[[int], Shortage | None]) -> None:
        self._shortage = shortage
        self._counts: dict[PartitionTransactions, int] = {}

    @property
    def count(self) -> int:
        """The number of decisions that wait. Any thread may read it."""
        return sum(list(self._counts.values()))

    def __contains__(self, transactions: PartitionTransactions) -> bool:
        return transactions in self._counts

    def begin(self, transactions: PartitionTransactions) -> None:
        """Count the decisions of a partition that was loaded."""
        decided = len(transactions.decided())
        if decided:
            self._counts[transactions] = decided

    def end(self, transactions: PartitionTransactions) -> None:
        """Count them no more: they are replicated."""
        self._counts.pop(transactions, None)

    async def watch(self, transactions: PartitionTransactions, is_current: Callable[[], bool]) -> None:
        """Log a warning whenever the ISR has changed and is too small, while decisions of a partition wait.

        Args:
            is_current: whether `transactions` are those of the present leadership. The decisions wait no more if not.
        """
        told: Shortage | None = None
        try:
            while transactions in self._counts and is_current():
                found = self._shortage(transactions.index)
                if found is not None and found != told:
                    logger.warning(
                        "__transaction_state-%d: %d decided transactions wait until their decisions are replicated. "
                        "The ISR is %s, and min.insync.replicas is %d",
                        transactions.index, self._counts[transactions], list(found.isr), found.min_insync,
                    )  # fmt: skip
                told = found
                await asyncio.sleep(LOOK_S)
        finally:
            self.end(transactions)
