"""The directory of one partition: where it lies, whose it is, and the names it goes by."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from broker.log.directories.checkpoints import sync_partition_metadata, write_partition_metadata
from broker.log.files.file_ops import FileOps
from kafkalog.protocol.errors import InconsistentTopicIdError
from kafkalog.storage import names


class PartitionDirectory:
    """See the module. Changed on the loop's thread only; read on any.

    Attributes:
        path: the directory.
        log_dir: its parent when the log was opened or moved. Thousands of logs are asked for it at once, and making a
            path takes a while.
        topic, partition: whose log it is.
        label: both, for messages.
        topic_id: of the topic's incarnation, if it is known.
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
        """Record the topic id, if there is none.

        Raises:
            InconsistentTopicIdError: there is another.
            OSError: it could not be written.
        """
        if self.topic_id is not None:
            if self.topic_id != topic_id:
                raise InconsistentTopicIdError(f"{self.label} belongs to topic id {self.topic_id}, not {topic_id}")
            return
        write_partition_metadata(str(self.path), topic_id, self._ops)
        self.topic_id = topic_id

    def sync(self) -> None:
        """Force the names within the directory, and its own, to the device. May run on a worker's thread.

        Raises:
            OSError: that could not be done.
        """
        path = self.path
        sync_partition_metadata(str(path), self._ops)
        self._ops.fsync_dir(str(path))
        self._ops.fsync_dir(str(path.parent))

    def name_for_removal(self, kind: str = names.DELETE_DIR) -> Path:
        """A fresh path beside it for a directory out of service."""
        return self.path.parent / names.delete_dir(self.topic, self.partition, kind)

    def moved_to(self, path: Path) -> None:
        """The log's files lie in ``path``, in another log directory, from now on."""
        self.path, self.log_dir = path, path.parent
