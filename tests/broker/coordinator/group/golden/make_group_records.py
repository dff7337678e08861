"""Make `group_records.txt` (`WriteGroupRecords.java`).

python -m tests.broker.coordinator.group.golden.make_group_records
"""

from __future__ import annotations

from pathlib import Path

from peers.brokers import kafka
from peers.toolchains import java

HERE = Path(__file__).parent


def main() -> None:
    lines = java.run_java(kafka.kafka_classpath(kafka.KAFKA_3), str(HERE / "WriteGroupRecords.java"))
    (HERE / "group_records.txt").write_text(lines)


if __name__ == "__main__":
    main()
