"""Produced message sets of v0 and v1, and all records produced to topics that store these.

`produce` passes them to this module. Records in another format than their topic's are converted, by a worker if that
takes long.
"""

from __future__ import annotations

from broker.api.context import Broker
from broker.log.append.legacy.message_sets import PreparedSet, prepare_set
from broker.log.append.validation import Origin
from broker.log.log_config import LogConfig
from kafkalog.records.peek import NO_MAGIC, RecordsView

LARGE_SET = 16 * 1024
"""Sets of this many bytes are checked and converted on a worker; compressed ones always are."""
BYTE_COST = 64
"""The bytes of a batch of v2 that are checked in the time of one byte of a message set; a message takes some 10 µs."""


def takes_long(view: RecordsView) -> bool:
    """Return whether a worker should prepare the set."""
    return view.magic != NO_MAGIC and bool(view.codec or view.size >= LARGE_SET)


def prepare(records: memoryview, view: RecordsView, config: LogConfig, now_ms: int, label: str) -> PreparedSet | None:
    """Check a set and convert it to the topic's format.

    Returns:
        None if it has no whole message: a producer may send that, and nothing is appended.

    Raises:
        KafkaError: it is refused.
    """
    return None if view.magic == NO_MAGIC else prepare_set(records, config, now_ms, Origin.CLIENT, label)


async def prepare_on_worker(broker: Broker, records: memoryview, config: LogConfig, label: str) -> PreparedSet | None:
    """Call `prepare` on a worker, for a set that takes long."""
    return await broker.replicas.conversions.run(prepare_set, records, config, broker.now_ms(), Origin.CLIENT, label)
