"""Clients of a Kafka-compatible broker: synchronous, over blocking sockets.

- `producer`             sends batches to the leaders of their partitions, in a thread of its own
- `consumer`             reads records and Arrow batches of topics, alone or in a group, with threads of its own
- `admin`                administration: topics, configurations, groups, quotas, replicas, transactions
- `connector`            the consumer of Kafka 0.8, whose groups are in ZooKeeper
- `old_producer`         the producer of Kafka 0.7 and 0.8, over `producer`
- `fetch`                reads given partitions, without a group and without threads

What all of them use:

- `config`               Kafka's client properties; `types` values; `errors` what can go wrong
- `properties/`          how properties are declared, parsed and resolved, and those of other clients
- `cluster`              metadata, a connection to each broker, retries
- `metadata`             brokers, topics and leaders as values
- `network`              connections to brokers, and what is logged while no broker answers
- `security`             TLS and logins, from the client's properties
- `coordinators`         the brokers that coordinate groups and transactions
- `offsets`              the first offset, the last one, or that of a timestamp (ListOffsets)
- `outcomes`             asks the leaders of partitions until each partition has a value or an error
- `transactions`         the requests of a transaction, and what is left to do when one fails
- `zookeeper`            nodes of groups, topics and brokers in ZooKeeper
- `forks`                keeps a forked process from using the clients of the other one
- `retry`                tries again until a deadline; `backoff` has the pauses
- `closing`              closes at the end of a `with` block
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog.client.consumer import Consumer
    from kafkalog.client.producer import Producer

__all__ = ["Consumer", "Producer"]


def __getattr__(name: str) -> Any:
    """Import what users hold only when it is first named, so that a command that needs none of it starts at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.lower()}"), name)
