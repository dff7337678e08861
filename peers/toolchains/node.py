"""Run Node.js programs that use kafkajs, which npm installs into the cache."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from peers.cache import MissingPeerError, cached, fetch, why_missing

KAFKAJS = "2.2.4"


def _install() -> Path:
    def install(directory: Path) -> None:
        if shutil.which("npm") is None:
            raise MissingPeerError("missing because npm (of Node.js) is not installed")
        package = f"kafkajs@{KAFKAJS}"
        fetch(package, ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), package], directory)

    return cached(f"npm/kafkajs-{KAFKAJS}", install)


def missing() -> str | None:
    """Return why kafkajs cannot run here, or None. The first call fetches it."""
    if shutil.which("node") is None:
        return "missing because node (Node.js) is not installed"
    return why_missing(_install)


def environment() -> dict[str, str]:
    """Return the environment variables that a script needs to `require('kafkajs')`."""
    return {"NODE_PATH": str(_install() / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


def node_line(script: Path, args: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a script."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError(str(missing()))
    return [node, str(script), *args]
