"""The registry of a single broker: the file `kafkalog.metadata.json`, a copy in each of its log directories.

A change is written to a temporary file in every directory, synced, and then renamed over the old file, so that a crash
leaves either the whole old registry or the whole new one in each. Every change increments the revision. At startup the
newest copy is used, and written to directories that are new or missed changes while they were offline. Changes that
need not be durable (which brokers are alive, which is the controller) are stored together with the next durable one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from broker.log.files.file_ops import OS, FileOps, write_all
from broker.metadata.json_form import from_json, to_json
from broker.metadata.model import ClusterState, MetadataError, new_cluster_id
from broker.metadata.operations import apply
from broker.metadata.store import Decision, Listener, tell
from broker.system.workers import Workers

logger = logging.getLogger(__name__)

FILE_NAME = "kafkalog.metadata.json"
JOINED_NAME = f"{FILE_NAME}.before-joining"
"""The name of a copy since the broker has joined a cluster (`kafkalog server join`)."""

_BROKEN = frozenset({errno.EIO, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ESTALE})
"""Errors after which the directory is unusable. After others, such as ENOSPC, a later attempt may succeed."""


class LocalStore:
    """The store of a lone broker's metadata. `commit` may be called concurrently on one event loop.

    Args:
        directories: the log directories that get a copy each.
        workers: write the copies.
        ops: the calls that change files.
        on_failure: called with a directory and the reason when it cannot be read or written, on the thread that
            notices.
        chance: where the id of a new cluster comes from; by default, a source of its own.

    Attributes:
        behind: whether a directory lacked the newest copy at startup; `write` updates it.
    """

    def __init__(
        self,
        *directories: Path,
        workers: Workers,
        ops: FileOps = OS,
        on_failure: Callable[[Path, str], None] = lambda directory, reason: None,
        chance: random.Random | None = None,
    ) -> None:
        self._chance = chance or random.Random()
        self._directories = directories
        self._ops = ops
        self._workers = workers
        self._state: ClusterState | None = None
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._on_failure = on_failure
        self.behind = False

    @property
    def state(self) -> ClusterState:
        if self._state is None:
            raise MetadataError("the registry is used before it was loaded")
        return self._state

    @property
    def exists(self) -> bool:
        return any((directory / FILE_NAME).exists() for directory in self._directories)

    def drop(self, directory: Path) -> None:
        """Stop writing copies to a directory, because it has failed. Any thread may call this."""
        self._directories = tuple(item for item in self._directories if item != directory)

    def load(self, cluster_id: str | None = None) -> ClusterState:
        """Read the newest copy; if there is none, start an empty registry with `cluster_id` or a new id."""
        copies: dict[Path, ClusterState] = {}
        unreadable: dict[Path, str] = {}
        for directory in self._directories:
            path = directory / FILE_NAME
            try:
                copies[directory] = from_json(path.read_text(encoding="utf-8"), str(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                unreadable[directory] = f"{path} cannot be read: {error}"
            except UnicodeDecodeError as error:
                raise MetadataError(f"{path} cannot be read: {error}") from error
        if unreadable and not copies:
            raise MetadataError("; ".join(unreadable.values()))
        for directory, reason in unreadable.items():
            self.drop(directory)
            self._on_failure(directory, reason)
        if not copies:
            self._state = ClusterState(cluster_id or new_cluster_id(self._chance))
            return self._state
        newest = max(copies.values(), key=lambda state: state.revision)
        if any(
            state.cluster_id != newest.cluster_id or (state.revision == newest.revision and state != newest)
            for state in copies.values()
        ):
            raise MetadataError(
                f"{FILE_NAME} lies in several log directories ({', '.join(map(str, copies))}) and says different "
                "things: move all but the right one elsewhere"
            )
        self.behind = any(copies.get(directory) != newest for directory in self._directories)
        self._state = newest
        return newest

    async def commit(self, decide: Decision) -> ClusterState:
        async with self._lock:
            old = self.state
            operations = decide(old)
            if not operations:
                return old
            new = apply(old, operations)
            try:
                if any(operation.durable for operation in operations):
                    await self._workers.run(self.write, new)
                else:
                    self._state = new
            finally:
                if self.state is not old:
                    # The state is in force even if the disk did not confirm it.
                    tell(self._listeners, self.state, operations)
            return self.state

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def write(self, state: ClusterState) -> None:
        """Store `state` with the next revision and make it the current one; blocks for the syncs.

        Raises:
            OSError: it could not be stored. The old state stays in force, unless a directory already has the new one
                and only its durability is unknown: then the new state is in force.
        """
        state = replace(state, revision=self.state.revision + 1)
        text = to_json(state).encode()
        directories = self._directories
        if not directories:
            raise OSError(errno.EIO, "every log directory has failed")
        for directory in directories:
            try:
                self._write_temporary(directory, text, has_secrets=bool(state.scram_credentials))
            except OSError as error:
                if error.errno in _BROKEN:
                    self._on_failure(directory, f"cannot write the registry: {error}")
                raise
        stored = 0
        failure: OSError | None = None
        for directory in directories:
            path = str(directory / FILE_NAME)
            try:
                self._ops.rename(path + ".tmp", path)
                # The next start would read this copy, whether or not it can be synced.
                self._state = state
                self._ops.fsync_dir(str(directory))
                stored += 1
            except OSError as error:
                failure = error
                logger.error("The registry cannot be stored in %s: %s", directory, error)
                self._on_failure(directory, f"cannot write the registry: {error}")
        if failure is not None and not stored:
            raise failure

    def _write_temporary(self, directory: Path, text: bytes, *, has_secrets: bool) -> None:
        fd = self._ops.open(str(directory / FILE_NAME) + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            if has_secrets:
                # Credentials of users: who has them can try passwords, and pretend to be this broker.
                os.fchmod(fd, 0o600)
            write_all(self._ops, fd, text, 0)
            self._ops.fsync(fd)
        finally:
            os.close(fd)
