"""The files that `kafka-storage format` writes into a new log directory of a KRaft broker.

The tool is a JVM of its own, whose start takes longer than all that it does. So it runs once for each release and set
of options. Its files are kept, and log directories get copies with ids of their own.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

from peers.cache import cached

TOOL = "kafka.tools.StorageTool"
META_PROPERTIES = "meta.properties"
_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092",
    "controller.listener.names": "CONTROLLER",
}


def fill(log_dir: Path, version: str, options: Sequence[str], run: Callable[[str, Sequence[str], str], object]) -> None:
    """Fill a log directory of node 1, as the tool does; do nothing where it is formatted already.

    Args:
        log_dir: The directory; it is created where it is absent.
        version: The release whose tool formats.
        options: Options of the tool, such as `--add-scram`.
        run: Runs a Java tool: class, arguments, release.
    """
    if (log_dir / META_PROPERTIES).exists():
        return

    def format_one(directory: Path) -> None:
        properties = directory / "server.properties"
        settings = {**_NODE, "log.dirs": str(directory / "data")}
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        run(TOOL, ["format", f"--cluster-id={_new_id()}", "--config", str(properties), *options], version)

    digest = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]
    shutil.copytree(cached(f"formatted/kafka-{version}-{digest}", format_one) / "data", log_dir, dirs_exist_ok=True)
    meta = log_dir / META_PROPERTIES
    kept = [line for line in meta.read_text().splitlines() if not line.startswith(("cluster.id=", "directory.id="))]
    meta.write_text("\n".join([*kept, f"cluster.id={_new_id()}", f"directory.id={_new_id()}", ""]))


def _new_id() -> str:
    """Return a new id as Kafka writes it: 16 random bytes in base64 for URLs, 22 characters."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
