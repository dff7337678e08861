"""The log directories of a broker that does not run: its identity, its registry and its partitions."""

from __future__ import annotations

import os
from pathlib import Path

from broker.config.server import BrokerConfig
from broker.log.files.file_ops import OS, FileOps
from broker.log.log_manager import LogManager
from broker.metadata.local import FILE_NAME, JOINED_NAME, LocalStore
from broker.metadata.model import ClusterState
from broker.modes.broker_id import known_broker_id
from broker.runtime import wall_clock_ms
from broker.system.workers import Workers
from kafkalog.storage import names


class RefusedError(Exception):
    """A broker cannot be moved as things are; the message says why, and what to do. Nothing was changed."""


class StoppedBroker:
    """A broker that does not run. Its log directories are locked until `close`.

    Args:
        config: its configuration.
        workers: threads for the registry's store.
        ops: the calls that change files.

    Attributes:
        broker_id: its id.
        cluster_id: the cluster that its directories belong to; None if they are new.

    Raises:
        ConfigError: `broker.id` is not that of the directories.
        LogDirLockedError: the broker runs.
        RefusedError: a directory cannot be used, or they belong to different brokers.
    """

    def __init__(self, config: BrokerConfig, workers: Workers, ops: FileOps = OS) -> None:
        absent = [str(path) for path in config.log_dirs if not Path(path).is_dir()]
        if absent:
            raise RefusedError(f"log.dirs: there is no directory {', '.join(absent)}")
        self._logs = LogManager(config.log_dirs, config.log_config({}), clock=wall_clock_ms, ops=ops)
        try:
            offline = [f"{each.path}: {each.offline}" for each in self._logs.offline_dirs]
            if offline:
                raise RefusedError(f"all log directories must be usable: {'; '.join(offline)}")
            identities = [each.identity() for each in self._logs.online_dirs]
            for key in ("cluster.id", "broker.id"):
                values = {each[key] for each in identities if key in each}
                if len(values) > 1:
                    raise RefusedError(
                        f"log.dirs: the directories belong together no more: {names.META_PROPERTIES} says "
                        f"{key}={', '.join(sorted(values))}"
                    )
            self.cluster_id = self._logs.stored_cluster_id()
            self.broker_id = known_broker_id(config["broker.id"], self._logs.stored_broker_id()) or 0
            self._ops = ops
            self._directories = [each.path for each in self._logs.online_dirs]
            self._store = LocalStore(*self._directories, workers=workers, ops=ops)
        except BaseException:
            self._logs.unlock()
            raise

    def close(self) -> None:
        """Unlock the directories."""
        self._logs.unlock()

    @property
    def has_registry(self) -> bool:
        """Return whether it is a cluster of its own."""
        return self._store.exists

    @property
    def has_joined(self) -> bool:
        """Return whether it is a member of a cluster, which it has joined by `kafkalog server join`."""
        return any((path / JOINED_NAME).exists() for path in self._directories)

    def registry(self) -> ClusterState:
        """Return its registry.

        Raises:
            MetadataError: it cannot be read.
        """
        return self._store.load(self.cluster_id)

    def held(self) -> frozenset[tuple[str, int]]:
        """Return the partitions that the directories have in service: not those that are deleted or set aside."""
        keys = [names.parse_served_dir(name) for path in self._directories for name in os.listdir(path)]
        return frozenset(key for key in keys if key is not None)

    def write_registry(self, state: ClusterState) -> None:
        """Make it a cluster of its own.

        Raises:
            OSError: the registry cannot be written.
        """
        self._store.load(state.cluster_id)
        self._store.write(state)
        for path in self._directories:
            old = path / JOINED_NAME
            if old.exists():
                self._ops.unlink(str(old))
                self._ops.fsync_dir(str(path))

    def put_registry_aside(self, state: ClusterState) -> None:
        """Make it a member of a cluster: mark the directories as its own, and rename each copy of the registry.

        Raises:
            OSError: a file cannot be written or renamed.
        """
        self._logs.claim(state.cluster_id, self.broker_id)
        for path in self._directories:
            if (path / FILE_NAME).exists():
                self._ops.rename(str(path / FILE_NAME), str(path / JOINED_NAME))
                self._ops.fsync_dir(str(path))
