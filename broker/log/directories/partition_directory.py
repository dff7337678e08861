"""The directory of one partition: its path, the partition and topic id that it belongs to, and its names."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from broker.log.directories.checkpoints import sync_partition_metadata, write_partition_metadata
from broker.log.files.file_ops import FileOps
from kafkalog.protocol.errors import InconsistentTopicIdError
from kafkalog.storage import names


class PartitionDirectory:
    """Name the directory of one partition. Only the event loop's thread changes it; any thread may read it.

    Attributes:
        path: the directory.
        log_dir: its parent when the log was opened or moved. It is kept because thousands of logs are asked for it at
            once, and making a path takes a while.
        topic, partition: the partition whose log it holds.
        label: `topic-partition`, for messages.
        topic_id: the id of the topic, or None if it is not known.
    """

    __slots__ = ("_ops", "label", "log_dir", "partition", "path", "topic", "topic_id")

    def __init__(self, path: Path, topic_id: UUID | None, ops: FileOps) -> None:
        parsed = names.parse_partition_dir(path.name)
        if parsed is None:
            raise ValueError(f"{path} is not named topic-partition")
        self.path = path
        self.log_dir = path.parent
        self.topic, self.partition = parsed
        self.label = f"{self.topic}-{self.partition}"
        self.topic_id = topic_id
        self._ops = ops

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Record the topic id if there is none.

        Raises:
            InconsistentTopicIdError: there is another one.
            OSError: it could not be written.
        """
        if self.topic_id is not None:
            if self.topic_id != topic_id:
                raise InconsistentTopicIdError(f"{self.label} belongs to topic id {self.topic_id}, not {topic_id}")
            return
        write_partition_metadata(str(self.path), topic_id, self._ops)
        self.topic_id = topic_id

    def sync(self) -> None:
        """Force the names in the directory, and its own name, to the device. May run on a worker's thread.

        Raises:
            OSError: a directory or the topic id could not be forced.
        """
        path = self.path
        sync_partition_metadata(str(path), self._ops)
        self._ops.fsync_dir(str(path))
        self._ops.fsync_dir(str(path.parent))

    def name_for_removal(self, kind: str = names.DELETE_DIR) -> Path:
        """Return an unused path beside the directory, to which it is renamed when it goes out of service."""
        return self.path.parent / names.delete_dir(self.topic, self.partition, kind)

    def moved_to(self, path: Path) -> None:
        """Use `path`, which is in another log directory, from now on."""
        self.path, self.log_dir = path, path.parent
