"""The log directories of a broker, which `log.dirs` names: they are locked together, and one must be usable."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from broker.log.directories.log_dir import LogDir, LogDirUnusableError
from broker.log.files.file_ops import FileOps

logger = logging.getLogger(__name__)


def lock_all(paths: Sequence[Path], ops: FileOps) -> list[LogDir]:
    """Lock every log directory, and make it if it does not exist; one that cannot be used is offline.

    Raises:
        LogDirLockedError: another broker uses one of them. None is locked.
        LogDirUnusableError: none of them can be used, or one is named twice. None is locked.
    """
    directories: list[LogDir] = []
    try:
        _lock_each(paths, ops, directories)
    except BaseException:
        unlock_all(directories)
        raise
    return directories


def _lock_each(paths: Sequence[Path], ops: FileOps, directories: list[LogDir]) -> None:
    errors = []
    used: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in used:
            raise LogDirUnusableError(f"log.dirs: Duplicate log directory found: {path}. Name each once")
        used.add(real)
        try:
            directory = LogDir(path, ops)
        except LogDirUnusableError as error:
            logger.error("%s; its partitions are offline", error)
            directory = LogDir.broken(path, str(error))
            errors.append(error)
        directories.append(directory)
    if len(errors) == len(paths) == 1:
        raise errors[0]
    check_any_online(directories)


def mark_clean(directories: Iterable[LogDir], dirty: Collection[Path]) -> bool:
    """Write clean-shutdown markers into the directories that are online and not dirty; return whether all have one."""
    clean = True
    for directory in directories:
        if directory.offline is not None or directory.path in dirty:
            clean = False
            continue
        try:
            directory.write_clean_shutdown()
        except OSError as error:
            logger.error("No clean-shutdown marker in %s: %s", directory.path, error)
            clean = False
    return clean


def unlock_all(directories: Iterable[LogDir]) -> None:
    """Unlock the log directories, so that other brokers can use them."""
    for directory in directories:
        directory.unlock()


def check_any_online(directories: Sequence[LogDir]) -> None:
    """Refuse to start without a log directory that can be used.

    Raises:
        LogDirUnusableError: all are offline; the message says why each one is.
    """
    if any(directory.offline is None for directory in directories):
        return
    reasons = "; ".join(f"{directory.path}: {directory.offline}" for directory in directories)
    raise LogDirUnusableError(
        "Shutdown broker because none of the specified log dirs from "
        f"{', '.join(str(directory.path) for directory in directories)} can be created or validated: {reasons}"
    )
