"""Errors that end a query that writes exactly once, with remedies."""

from __future__ import annotations

from collections.abc import Sequence


class OnceError(Exception):
    """Base of the errors of the transactional mode, apart from those of brokers and of the client."""


class LedgerError(OnceError):
    """The ledger cannot be read or written; the message says why."""


class OldBrokersError(OnceError):
    """The brokers are older than Kafka 2.5, and report offsets that a transaction is about to replace."""

    def __init__(self) -> None:
        super().__init__(
            "kafka.transactional.id needs brokers of Kafka 2.5 or newer: update the brokers, or remove the option to "
            "write at least once"
        )


class TakenOverError(OnceError):
    """Another query has begun to write with the same `kafka.transactional.id`; what this one wrote is aborted."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"another query writes with kafka.transactional.id {prefix} by now, or this one was started again "
            "elsewhere; nothing of this micro-batch is committed here. Give each query an id of its own"
        )


class OldCheckpointError(OnceError):
    """The query repeats a micro-batch before the last one that was written."""

    def __init__(self, prefix: str, batch: int, last: int) -> None:
        super().__init__(
            f"micro-batch {batch} comes again, but with kafka.transactional.id {prefix} batch {last} of this query has "
            "been written: the checkpoint is older than that. Restore it, or write with another transactional id; "
            "then rows of these batches are written once more"
        )


class LateBatchError(OnceError):
    """A micro-batch took so long that its transactions may time out during the commit; nothing is committed."""

    def __init__(self, seconds: float, allowed_s: float, timeout_s: float) -> None:
        super().__init__(
            f"the micro-batch took {seconds:.0f} s, too long to be committed safely within "
            f"kafka.transaction.timeout.ms ({timeout_s * 1000:.0f}), which allows {allowed_s:.0f} s; nothing of it is "
            "committed. Make batches smaller (maxOffsetsPerTrigger), or raise that option and the brokers' "
            "transaction.max.timeout.ms"
        )


class LostTransactionsError(OnceError):
    """Brokers have aborted transactions that were decided to be committed; their rows are missing."""

    def __init__(self, prefix: str, what: str, lost: Sequence[str], total: int) -> None:
        shown = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")
        super().__init__(
            f"{what}: {len(lost)} of {total} transactions that were decided to be committed had been aborted by the "
            f"brokers before that could be done ({shown}), because no driver came back within "
            "kafka.transaction.timeout.ms, or somebody else used these ids. Their rows are missing, the others' are "
            "there. To write all rows of it again, so that the others' are there twice, give another "
            f"kafka.transactional.id than {prefix}; to go on without them, set lostTransactions=skip"
        )


class UnknownMicroBatchError(OnceError):
    """Spark does not say which micro-batch a task of a stream belongs to."""

    def __init__(self, properties: Sequence[str], version: str, tested: Sequence[str]) -> None:
        super().__init__(
            f"Spark does not say which micro-batch this task belongs to (local properties {' and '.join(properties)}), "
            "so that one that is repeated could not be told from a new one; nothing of it is written. Writing exactly "
            f"once is tested with PySpark {', '.join(tested)}; this is {version}. Use one of those, or write without "
            "kafka.transactional.id"
        )
