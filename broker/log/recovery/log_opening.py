"""Opening the directory of one partition: make it or recover it, and check its topic id."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from broker.log.directories.checkpoints import read_partition_metadata, write_partition_metadata
from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.log_config import LogConfig
from broker.log.log_parts import LogParts
from broker.log.recovery.log_recovery import load, load_new
from broker.log.resources import LogResources
from kafkalog.protocol.errors import InconsistentTopicIdError


def open_parts(
    path: Path,
    config: LogConfig,
    *,
    clean: bool,
    log_start_offset: int,
    recovery_point: int,
    now_ms: int,
    topic_id: UUID | None,
    resources: LogResources,
) -> LogParts:
    """Open the log in `path` for `Log.open`, which describes the arguments and the errors."""
    ops = resources.ops
    created = not path.exists()
    if created:
        ops.mkdir(str(path))
        loaded = load_new(
            str(path),
            config,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
            resources=resources,
        )
    else:
        loaded = load(
            str(path),
            config,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
            resources=resources,
        )
    known = None if created else read_partition_metadata(str(path))
    if known is not None and topic_id is not None and known != topic_id:
        raise InconsistentTopicIdError(f"{path} belongs to topic id {known}, not {topic_id}")
    if known is None and topic_id is not None:
        write_partition_metadata(str(path), topic_id, ops)
    directory = PartitionDirectory(path, known or topic_id, ops)
    return LogParts.of(directory, config, loaded, resources, created=created, clean=clean)
