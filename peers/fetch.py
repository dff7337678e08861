"""Fetch every foreign program into the cache: `python -m peers.fetch`. The exit code is 1 if one is missing.

It also makes what lets brokers of Apache Kafka start sooner, see `peers.brokers.class_data`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from peers import cache
from peers.brokers import class_data, kafka
from peers.clients import old_java
from peers.clients.base import Record
from peers.clients.kafka_py import KafkaPythonClient
from peers.clients.registry import PROGRAMS
from peers.clusters import hadoop, hdfs, yarn

PATIENCE_S = 1800.0


def main() -> int:
    """Fetch every program; print for each whether it is ready, or why it is missing."""
    cache.FETCH_DEADLINE_S = PATIENCE_S
    wanted: dict[str, Callable[[], str | None]] = {
        f"Apache Kafka {version}": partial(kafka.missing, version)
        for version in (*kafka.VERSIONS, kafka.KAFKA_2, kafka.KAFKA_0)
    }
    wanted |= {f"Kafka's client {version}": partial(old_java.missing, version) for version in old_java.VERSIONS}
    wanted["Kafka Streams"] = kafka.streams_missing
    wanted["Kafka's MirrorMaker"] = kafka.mirror_missing
    wanted[f"HDFS {hadoop.HADOOP}"] = hdfs.missing
    wanted[f"YARN {hadoop.HADOOP}"] = yarn.missing
    wanted |= {name: client.missing for name, client in PROGRAMS.items()}
    reasons = {name: missing() for name, missing in wanted.items()}
    for name, reason in reasons.items():
        print(f"{name}: {reason or 'ready'}")
    for version in kafka.VERSIONS:
        if reasons[f"Apache Kafka {version}"] is None:
            _archive_classes(version)
    return int(any(reasons.values()))


def _archive_classes(version: str) -> None:
    """Make the archive for brokers of a release, if this Java can: they run without it, too."""
    try:
        class_data.make(kafka.kafka_classpath(version), partial(_use_a_broker, version))
    except RuntimeError as error:
        print(f"Apache Kafka {version}: its brokers start without an archive of their classes: {error}")


def _use_a_broker(version: str, jvm_option: str) -> None:
    """Start a broker, send it the requests that most tests send, and stop it."""
    with kafka.ApacheKafka(version, jvm=[jvm_option]) as broker:
        client = KafkaPythonClient(broker.bootstrap)
        try:
            client.create_topic("classes", 1, {"cleanup.policy": "compact"})
            records = [Record(b"key", b"value", timestamp=1)] * 10
            client.produce("classes", 0, records, codec="gzip", transaction="commit")
            client.consume_all("classes", [len(records)])
            client.delete_topic("classes")
        finally:
            client.close()


if __name__ == "__main__":
    sys.exit(main())
