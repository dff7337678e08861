"""Make `embedded.txt`: what members of a group tell each other, as the Java client writes it (`WriteEmbedded.java`).

python -m tests.kafkalog.protocol.golden.make_embedded
"""

from __future__ import annotations

from pathlib import Path

from peers.brokers import kafka
from peers.toolchains import java

HERE = Path(__file__).parent


def main() -> None:
    lines = java.run_java(kafka.kafka_classpath(kafka.KAFKA_4), str(HERE / "WriteEmbedded.java"))
    (HERE / "embedded.txt").write_text("".join(line + "\n" for line in lines.splitlines() if line.count(" ") == 2))


if __name__ == "__main__":
    main()
