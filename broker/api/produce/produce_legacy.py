"""Produced message sets of v0 and v1, and whatever is produced to topics that store these.

`produce` hands them over at its door. What is not in the format that its topic stores is converted; where that takes
long a worker does it.
"""

from __future__ import annotations

from broker.api.context import Broker
from broker.log.append.legacy.message_sets import PreparedSet, prepare_set
from broker.log.append.validation import Origin
from broker.log.log_config import LogConfig
from kafkalog.records.peek import NO_MAGIC, RecordsView

LARGE_SET = 16 * 1024
"""Bytes from which on a set is checked and converted on a worker; a compressed one always is."""


def takes_long(view: RecordsView) -> bool:
    """Return whether the set is for a worker."""
    return view.magic != NO_MAGIC and bool(view.codec or view.size >= LARGE_SET)


def prepare(records: memoryview, view: RecordsView, config: LogConfig, now_ms: int, label: str) -> PreparedSet | None:
    """Check a set and convert it to what the topic stores.

    Returns:
        None where it has no whole message: a producer may send that, and it is appended as nothing.

    Raises:
        KafkaError: it is refused.
    """
    return None if view.magic == NO_MAGIC else prepare_set(records, config, now_ms, Origin.CLIENT, label)


async def prepare_on_worker(broker: Broker, records: memoryview, config: LogConfig, label: str) -> PreparedSet | None:
    """`prepare` for a set that takes long."""
    return await broker.replicas.conversions.run(prepare_set, records, config, broker.now_ms(), Origin.CLIENT, label)
