"""Make `golden.txt`: nodes as Apache Kafka 3.9 writes them.

python -m tests.broker.metadata.znodes.make_golden
"""

from __future__ import annotations

from pathlib import Path

from peers.brokers import kafka
from peers.toolchains import java

HERE = Path(__file__).parent
DATA = HERE / "golden.txt"


def write_nodes() -> str:
    """Return the lines, from Java.

    Raises:
        MissingPeerError: Maven or Java is missing.
    """
    return java.run_java(kafka.kafka_classpath(kafka.KAFKA_3), str(HERE / "WriteZnodes.java"))


def main() -> None:
    DATA.write_text(write_nodes())
    print(DATA)


if __name__ == "__main__":
    main()
