"""Records that Apache Kafka's classes have serialized, and the values that they were made of.

`Mirror2.java` prints them (`test_apache_kafka`, which compares them with these).
"""

from __future__ import annotations

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.formats import Checkpoint, Heartbeat, OffsetSync

RECORDS: list[tuple[OffsetSync | Checkpoint | Heartbeat, str, str]] = [
    (
        OffsetSync(TopicPartition("wörds", 3), 1234567890123, 42),
        "000677c3b6726473" + "00000003",
        "0000011f71fb04cb" + "000000000000002a",
    ),
    (
        Checkpoint("readers", TopicPartition("A.words", 1), 300, 301, "nöte"),
        "000772656164657273" + "0007412e776f726473" + "00000001",
        "0000" + "000000000000012c" + "000000000000012d" + "00056ec3b67465",
    ),
    (
        Heartbeat("A", "B", 1700000000123),
        "000141" + "000142",
        "0000" + "0000018bcfe5687b",
    ),
]
"""The value, its key and its value in hexadecimal digits."""
