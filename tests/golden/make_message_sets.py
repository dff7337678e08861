"""Make `tests/golden/message_sets`: v0 and v1 as Apache Kafka's own classes write them (`MessageSets.java`).

python -m tests.golden.make_message_sets
"""

from __future__ import annotations

from pathlib import Path

from peers.brokers import kafka
from peers.toolchains import java

HERE = Path(__file__).parent / "message_sets"
SOURCE = Path(__file__).parent / "MessageSets.java"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    java.run_java(kafka.kafka_classpath(kafka.KAFKA_3), str(SOURCE), ["write", str(HERE)])


if __name__ == "__main__":
    main()
