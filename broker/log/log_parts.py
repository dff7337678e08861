"""The parts of a log, and their dependencies."""

from __future__ import annotations

from dataclasses import dataclass

from broker.log.append.legacy.message_set_appender import LegacyAppender
from broker.log.append.log_appender import LogAppender
from broker.log.directories.directory_move import DirectoryMove
from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.flusher import Flusher
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_config import LogConfig
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.read.log_reader import LogReader
from broker.log.recovery.log_recovery import LoadedLog
from broker.log.resources import LogResources
from broker.log.retention.log_remover import LogRemover
from broker.log.roller import Roller
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from broker.log.truncation import Truncation


@dataclass(frozen=True, slots=True)
class LogParts:
    """Hold the parts of one `Log`. The docstring of `broker.log.log` says what each does."""

    directory: PartitionDirectory
    segments: SegmentList
    offsets: LogOffsets
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    errors: StorageErrors
    flusher: Flusher
    roller: Roller
    reader: LogReader
    appender: LogAppender
    legacy: LegacyAppender
    remover: LogRemover
    move: DirectoryMove
    truncation: Truncation

    @classmethod
    def of(
        cls,
        directory: PartitionDirectory,
        config: LogConfig,
        loaded: LoadedLog,
        resources: LogResources,
        *,
        created: bool,
        clean: bool,
    ) -> LogParts:
        """Make the parts of a log that was just opened.

        Args:
            loaded: what recovery found in the directory.
            created: the directory was made just now.
            clean: the last stop was clean.
        """
        ops, epochs, producers = resources.ops, loaded.epochs, loaded.producers
        segments = SegmentList(loaded.segments)
        offsets = LogOffsets(loaded.log_start_offset, loaded.log_end_offset, producers)
        errors = StorageErrors(directory, resources.seconds)
        flusher = Flusher(
            directory, segments, offsets, producers, errors, config,
            recovery_point=loaded.recovery_point, created=created, clean=clean, lock=resources.make_lock(),
            chores=resources.chores,
        )  # fmt: skip
        roller = Roller(directory, segments, producers, flusher, config, resources)
        appender = LogAppender(
            directory, segments, offsets, epochs, producers, flusher, roller, errors, config, ops
        )  # fmt: skip
        remover = LogRemover(
            directory, segments, offsets, epochs, producers, flusher, roller, errors, config, resources
        )  # fmt: skip
        return cls(
            directory=directory,
            segments=segments,
            offsets=offsets,
            epochs=epochs,
            producers=producers,
            errors=errors,
            flusher=flusher,
            roller=roller,
            reader=LogReader(directory, segments, offsets, epochs, ops),
            appender=appender,
            legacy=LegacyAppender(directory, segments, offsets, producers, flusher, roller, errors, appender, config),
            remover=remover,
            move=DirectoryMove(directory, segments, epochs, producers, flusher, remover, errors, ops),
            truncation=Truncation(
                directory, segments, offsets, epochs, producers, flusher, roller, remover, errors, ops
            ),
        )
