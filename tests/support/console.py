"""Run `kafkalog produce` and `kafkalog consume` for tests."""

from __future__ import annotations

import subprocess
import uuid

from tests.support.command import run


def new_topic(broker_address: str, partitions: int = 1, *words: str) -> str:
    name = f"cli-{uuid.uuid4().hex[:12]}"
    run("topics", "create", "--bootstrap-server", broker_address, "--topic", name, "--partitions", str(partitions),
        *words)  # fmt: skip
    return name


def properties(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("--property", pair)]


def produce(
    broker_address: str, topic: str, data: bytes, *words: str, check: int = 0
) -> subprocess.CompletedProcess[bytes]:
    return run("produce", "--bootstrap-server", broker_address, "--topic", topic, *words, stdin=data, check=check)


def consume(broker_address: str, topic: str, count: int, *words: str) -> bytes:
    """Return the output of `consume --from-beginning` for the first `count` records."""
    done = run("consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning",
               "--max-messages", str(count), *words)  # fmt: skip
    assert done.stderr.decode().splitlines()[-1] == f"Processed a total of {count} messages"
    return done.stdout
