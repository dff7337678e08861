"""Records that a worker prepares before they are appended."""

from __future__ import annotations

from broker.log.log_config import LogConfig
from kafkalog.protocol.messages.produce import PartitionProduceResponse

NOT_MIRRORED = -1
"""The expected end offset of records that come from a producer."""


class DeferredAppend:
    """Records that a worker prepares before they are appended: it checks them, or changes their codec or format.

    Attributes:
        records: as the producer sent them.
        config: of their topic.
        result: their entry in the response.
        expected_end: where a mirror expects the log to end; NOT_MIRRORED for records of producers.
    """

    __slots__ = ("config", "expected_end", "records", "result", "topic")

    def __init__(
        self,
        topic: str,
        records: memoryview,
        config: LogConfig,
        result: PartitionProduceResponse,
        expected_end: int = NOT_MIRRORED,
    ) -> None:
        self.topic = topic
        self.records = records
        self.config = config
        self.result = result
        self.expected_end = expected_end

    def keep(self) -> None:
        """Copy the records out of the connection's buffer."""
        self.records = memoryview(bytearray(self.records))
