"""The driver's part: claims a micro-batch before its tasks begin; decides and commits it after them, or aborts it.

Spark may run each of these steps in another process, so only the ledger keeps state between them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from kafkalog.client.cluster import Cluster
from spark_kafkalog import faults
from spark_kafkalog.sink.transactional.claim import BatchWrote, Claim
from spark_kafkalog.sink.transactional.errors import (
    LateBatchError,
    LostTransactionsError,
    OldCheckpointError,
    TakenOverError,
)
from spark_kafkalog.sink.transactional.ledger import Ledger, ledger_topic
from spark_kafkalog.sink.transactional.ledger_record import Record, State, TaskTransaction
from spark_kafkalog.sink.transactional.transaction_ends import abort_all, commit_all, open_transactions
from spark_kafkalog.sink.transactional.transaction_options import OnceOptions

SAFE_SHARE = 0.9
"""A batch that took more than this share of `transaction.timeout.ms` is refused: commits could come too late."""
LEAST_SHARE = 0.5
"""The share of a short `transaction.timeout.ms` that a batch may take, even if less than `max.block.ms` is left."""
LISTING_S = 5.0
"""The longest time for which brokers are asked for open transactions. A later batch asks again."""
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock of all processes of a machine that nobody sets. If possible, one that goes on while the machine sleeps."""
logger = logging.getLogger(__name__)


def since_boot() -> float:
    """Return seconds by a clock that all processes of this machine share, and that nobody can set."""
    return time.clock_gettime(_CLOCK)


class Driver:
    """Claims and decides micro-batches for one `kafka.transactional.id`.

    Each step of a call waits for brokers up to `max.block.ms`. Calls raise the errors of `errors`, and those of
    brokers and of the client.
    """

    def __init__(
        self,
        options: OnceOptions,
        now: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = since_boot,
    ) -> None:
        self._options = options
        self._prefix = options.prefix
        self._now = now
        self._elapsed = elapsed

    @property
    def allowed(self) -> float:
        """Seconds that a batch may take. Then time is left in which the decision and commits may wait for brokers."""
        whole = self._options.transaction_timeout
        return max(min(whole * SAFE_SHARE, whole - self._options.max_block), whole * LEAST_SHARE)

    def claim(self) -> Claim:
        """Claim the next micro-batch: finish what was decided before, and abort transactions that were left open."""
        faults.point("before-claim")
        with closing(Cluster(self._options.client)) as cluster:
            ledger = self._ledger(cluster)
            record = ledger.open()
            ledger_topic(cluster, self._options.ledger_topic, ledger.deadline)
            if record.state is State.DECIDED:
                logger.warning("batch %d was decided and not finished: finishing it", record.batch)
                self._commit(cluster, ledger, record)
            left = open_transactions(cluster, self._prefix, self._deadline(LISTING_S))
            ledger.deadline = self._deadline()
            made_at = self._elapsed()
            claimed = record.claimed(int(self._now() * 1000))
            ledger.write(claimed)
            # None of them can be decided any more, and no task of the new claim has begun.
            abort_all(cluster, left, ledger.deadline)
        faults.point("after-claim")
        return Claim(claimed.claim, made_at, claimed.query, claimed.batch)

    def commit(self, wrote: BatchWrote, batch: int | None) -> bool:
        """Decide and commit what tasks wrote; return False if the micro-batch had been decided before.

        `batch` is its number, None for a batch query.
        """
        if not wrote.transactions and batch is None:
            return True
        with closing(Cluster(self._options.client)) as cluster:
            ledger = self._ledger(cluster)
            record = ledger.open()
            left: Sequence[TaskTransaction] = ()
            if not self._is_decided_by(record, wrote.claim.number):
                if batch is not None and record.query == wrote.query and record.batch >= batch:
                    if record.batch == batch and record.state is State.DECIDED:
                        # The driver that decided has died since. Spark takes the batch for done now.
                        self._finish(cluster, ledger, record)
                    abort_all(cluster, wrote.transactions, ledger.deadline)
                    if record.batch > batch:
                        raise OldCheckpointError(self._prefix, batch, record.batch)
                    return False
                record, left = self._decide(cluster, ledger, record, wrote, batch)
            if record.state is State.DECIDED:
                self._finish(cluster, ledger, record)
            # After the commits, which must not wait for coordinators of these.
            abort_all(cluster, left, ledger.deadline)
        faults.point("after-done")
        return True

    def abort(self, wrote: BatchWrote) -> None:
        """Give up the claim and abort what finished tasks wrote. But if the claim was decided, finish it.

        Spark also calls this after a failed commit, whatever part of that commit was done.
        """
        with closing(Cluster(self._options.client)) as cluster:
            ledger = self._ledger(cluster)
            record = ledger.open()
            if self._is_decided_by(record, wrote.claim.number):
                if record.state is State.DECIDED:
                    self._finish(cluster, ledger, record)
                return
            if record.claim == wrote.claim.number and record.state is State.CLAIMED:
                # Otherwise a commit that is still running somewhere could decide on transactions that are aborted here.
                ledger.write(record.ended(State.VOID))
            abort_all(cluster, wrote.transactions, ledger.deadline)

    # Inside

    def _decide(
        self, cluster: Cluster, ledger: Ledger, record: Record, wrote: BatchWrote, batch: int | None
    ) -> tuple[Record, list[TaskTransaction]]:
        """Decide the claim; return the new record, and the open transactions of attempts that failed or lost.

        No other claim was made since these were listed, and an id that a later claim uses again has another epoch.

        Raises:
            TakenOverError: Another driver has claimed the next batch.
            LateBatchError: The batch took too long.
        """
        if record.claim != wrote.claim.number or record.state is not State.CLAIMED:
            abort_all(cluster, wrote.transactions, ledger.deadline)
            raise TakenOverError(self._prefix)
        # Brokers that do not list transactions must not make the batch late.
        spare = self.allowed - self._took(wrote.claim)
        # An id is used once in a claim, so the tasks' own have no other transaction. There may be thousands of them.
        own = {each.transactional_id for each in wrote.transactions}
        left = open_transactions(cluster, self._prefix, self._deadline(min(LISTING_S, spare / 2)), own)
        faults.point("before-decision")
        query = None if batch is None else wrote.query
        decided = record.decided(wrote.transactions, query, batch)
        # Half of the time until the transactions time out is left for the commits.
        ledger.deadline = self._deadline((self._options.transaction_timeout - self._took(wrote.claim)) / 2)
        ledger.write(decided)
        ledger.deadline = self._deadline()
        faults.point("after-decision")
        return decided, left

    def _took(self, claim: Claim) -> float:
        """Return how many seconds the batch took so far.

        Raises:
            LateBatchError: They are too many.
        """
        took = self._elapsed() - claim.made_at
        if took > self.allowed:
            raise LateBatchError(took, self.allowed, self._options.transaction_timeout)
        return took

    def _finish(self, cluster: Cluster, ledger: Ledger, record: Record) -> None:
        self._commit(cluster, ledger, record)
        faults.point("after-commits")
        ledger.write(record.ended(State.DONE))

    def _commit(self, cluster: Cluster, ledger: Ledger, record: Record) -> None:
        lost = commit_all(cluster, record.transactions, ledger.deadline)
        if not lost:
            return
        if ledger.read().claim != record.claim:
            # Another driver has finished this claim, and its tasks use the ids again.
            raise TakenOverError(self._prefix)
        what = "a batch query" if record.batch < 0 else f"batch {record.batch}"
        error = LostTransactionsError(
            self._prefix, what, [each.transactional_id for each in lost], len(record.transactions)
        )
        if not self._options.skip_lost:
            raise error
        logger.error("%s", error)

    @staticmethod
    def _is_decided_by(record: Record, claim: int) -> bool:
        return record.claim == claim and record.state in (State.DECIDED, State.DONE)

    def _ledger(self, cluster: Cluster) -> Ledger:
        return Ledger(cluster, self._prefix, self._options.ledger_topic, self._deadline())

    def _deadline(self, most: float = math.inf) -> float:
        """Return the time after `max.block.ms`, or after `most` seconds if that is less."""
        return time.monotonic() + min(most, self._options.max_block)
