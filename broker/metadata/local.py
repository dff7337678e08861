"""The registry of a single broker: the file ``kafkalog.metadata.json`` in one of its log directories.

It is made in the first, and found in whichever has it: the order of ``log.dirs`` may change.

A change is written to a temporary file, synced, and renamed over the old one, so that a crash leaves either the old
registry or the new one, whole.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from broker.metadata.model import ClusterState, MetadataError, from_json, new_cluster_id, to_json
from broker.metadata.store import Change

FILE_NAME = "kafkalog.metadata.json"


def registry_directory(log_dirs: Sequence[Path]) -> Path:
    """The log directory that holds the registry; the first when none does.

    Raises:
        MetadataError: several do.
    """
    found = [directory for directory in log_dirs if (directory / FILE_NAME).exists()]
    if len(found) > 1:
        raise MetadataError(
            f"{FILE_NAME} lies in several log directories ({', '.join(map(str, found))}): "
            "move all but the right one elsewhere"
        )
    return found[0] if found else log_dirs[0]


class LocalStore:
    """See the module. ``commit`` may be called concurrently on one event loop."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._state: ClusterState | None = None
        self._lock = asyncio.Lock()

    @property
    def state(self) -> ClusterState:
        if self._state is None:
            raise MetadataError("the registry is used before it was loaded")
        return self._state

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def load(self, cluster_id: str | None = None) -> ClusterState:
        """Read the file; without one begin an empty registry under ``cluster_id``, or a new one."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._state = ClusterState(cluster_id or new_cluster_id())
            return self._state
        except (OSError, UnicodeDecodeError) as error:
            raise MetadataError(f"{self.path} cannot be read: {error}") from error
        self._state = from_json(text, str(self.path))
        return self._state

    async def commit(self, change: Change) -> ClusterState:
        async with self._lock:
            old = self.state
            new = change(old)
            if new is old:
                return old
            await asyncio.get_running_loop().run_in_executor(None, self.write, new)
            return new

    def write(self, state: ClusterState) -> None:
        """Store ``state`` and make it the newest; blocks for the sync."""
        temporary = self.path.with_name(self.path.name + ".tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(to_json(state))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._state = state
