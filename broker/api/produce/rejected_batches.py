"""Find the records because of which a request's batches were refused (KIP-467).

A few records are examined at once. A worker examines more of them, because they take microseconds each.
"""

from __future__ import annotations

from functools import partial

from broker.api.context import Broker
from broker.api.errors import shortened
from broker.log.append.rejection import RecordError, RejectedRecordsError, RejectedTimestampsError
from kafkalog.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from kafkalog.records.batch import read_header

MOST_RECORD_ERRORS = 10_000
"""The most records that one response names. Kafka names all of them, in a response of any size."""
WALKED_AT_ONCE = 1000
"""The most records of refused batches that a request examines without a worker."""


class _Rejected:
    """A batch that was refused, and its entry in the response."""

    __slots__ = ("_error", "_result", "records")

    def __init__(
        self,
        error: RejectedRecordsError | RejectedTimestampsError,
        records: memoryview,
        result: PartitionProduceResponse,
    ) -> None:
        self._error = error
        self._result = result
        self.records = records

    def find(self, most: int) -> list[RecordError]:
        """Return the first `most` of the records at fault; a worker may call it."""
        return self._error.rules.record_errors(self.records, most)

    def name(self, found: list[RecordError]) -> None:
        """Put the records into the response."""
        self._result.error_message = shortened(self._error.describe(found))
        self._result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in found
        ]


class RejectedBatches:
    """The batches of one request that were refused because of some of their records."""

    __slots__ = ("_nameable", "_waiting", "_walkable")

    def __init__(self) -> None:
        self._nameable = MOST_RECORD_ERRORS
        self._walkable = WALKED_AT_ONCE
        self._waiting: list[_Rejected] = []

    def __bool__(self) -> bool:
        """Return whether batches wait for a worker."""
        return bool(self._waiting)

    def add(
        self,
        error: RejectedRecordsError | RejectedTimestampsError,
        records: memoryview,
        result: PartitionProduceResponse,
        *,
        takes_long: bool,
    ) -> None:
        """Name the records of a batch that are at fault in `result`, now or when a worker has found them.

        Args:
            takes_long: the batch is for a worker, however few its records are: they may be large ones.
        """
        rejected, count = _Rejected(error, records, result), read_header(records).records_count
        if takes_long or count > self._walkable:
            self._waiting.append(rejected)
            return
        self._walkable -= count
        self._name(rejected, rejected.find(self._nameable))

    def keep(self) -> None:
        """Copy the records of the batches that wait out of the connection's buffer."""
        for rejected in self._waiting:
            rejected.records = memoryview(bytes(rejected.records))

    async def name_rest(self, broker: Broker) -> None:
        """Let a worker find the records at fault in the batches that wait."""
        for rejected in self._waiting:
            if self._nameable:
                self._name(rejected, await broker.checking.run(partial(rejected.find, self._nameable)))

    def _name(self, rejected: _Rejected, found: list[RecordError]) -> None:
        self._nameable -= len(found)
        rejected.name(found)
