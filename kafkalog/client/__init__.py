"""Clients of a Kafka-compatible broker: synchronous, blocking sockets, no threads of their own unless they say so.

- `config`      Kafka's client properties; `errors` what can go wrong; `types` values given and taken
- `connection`  one socket to one broker; `security` TLS
- `cluster`     metadata, a connection per broker, trying again
- `coordinators` of groups and transactions; `group_offsets` what a group has committed
- `transaction_requests` a transaction as plain calls; `transaction_errors` what is left to do when it fails
- `transactions_admin` which transactions there are, and ends to hanging ones
- `offsets`     the first, the last, or the offset of a timestamp
- `fetcher`     record bytes of one partition
- `simple`      records of assigned partitions
- `consumer`    records and Arrow batches of topics, alone or in a group
- `producer`    batches to their leaders
- `admin`       topics, configurations, deletions
- `replica_admin` elections, reassignments, log directories
- `group_admin` consumer groups from outside; `groups` values of them; `lag` and `offset_reset` pure
- `closing`              what is closed at the end of a `with` block
- `decode`               from fetched bytes to records
- `low_level`            the fetch by offset and size of Kafka's first consumers
- `outage`               saying once that no broker answers
- `quota_admin`          client quotas (KIP-546)
- `retry`                trying again until a deadline
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog.client.consumer import Consumer
    from kafkalog.client.producer import Producer

__all__ = ["Consumer", "Producer"]


def __getattr__(name: str) -> Any:
    """What users hold, imported when it is first named: a command that needs none of it is to start at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.lower()}"), name)
