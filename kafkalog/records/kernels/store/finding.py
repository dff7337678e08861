"""The way to a group of kernels: read its file, or compile it and write one.

Processes that start together compile once: one holds the lock, the others wait for the file. If no directory is
writable, the kernels go from the compiling processes straight into memory, and nothing is written anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkalog.records.kernels.store import bundle, compiling, places, processors
from kafkalog.records.kernels.store.fingerprint import fingerprint, key
from kafkalog.records.kernels.store.groups import GROUPS
from kafkalog.records.kernels.store.processors import Processor

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """A group of compiled kernels."""

    parts: dict[str, bytes]
    """Their bytes, by name."""
    processor: Processor
    directory: Path | None
    """The directory of its file; None if there is none."""
    is_new: bool
    """True if it was compiled now, by this process."""


def file_name(group: str, processor: Processor) -> str:
    """Return the name of the file of a group."""
    return f"{group}.{processor.label}.{key()}{places.SUFFIX}"


def find(group: str, directories: Iterable[Path], wanted: Sequence[Processor]) -> Found | None:
    """Return a group from the first file that can be used: for the first processor, in the first directory.

    A file that is damaged, foreign or for something else is passed over.
    """
    everywhere = list(directories)
    for processor in wanted:
        for directory in everywhere:
            data = places.read(directory, file_name(group, processor))
            if data is None:
                continue
            try:
                parts = bundle.decode(data, GROUPS[group], fingerprint(), processor)
            except bundle.BundleError as error:
                logger.warning("%s is not used: %s", directory / file_name(group, processor), error)
                continue
            return Found(parts, processor, directory, False)
    return None


def obtain(
    group: str,
    directories: Sequence[Path],
    wanted: Sequence[Processor],
    make: Processor | None = None,
    children: int = compiling.MAX_CHILDREN,
) -> Found:
    """Return a group as `find` does; compile it for `make` where there is none, and write its file if that is possible.

    `make` is by default the processor of `processors.default`. At most `children` processes compile.

    Raises:
        CompileError: It could not be compiled.
    """
    found = find(group, directories, wanted)
    if found is not None:
        return found
    target = make or processors.default()
    name = file_name(group, target)
    for directory in directories:
        with places.locked(directory, name, compiling.TIMEOUT_S) as is_writable:
            if not is_writable:
                continue
            # Whoever had the lock before may have written it.
            found = find(group, directories, wanted)
            if found is not None:
                return found
            parts = compiling.compiled(GROUPS[group], target, children)
            try:
                places.write(directory, name, bundle.encode(parts, fingerprint(), target))
            except OSError as error:
                logger.warning("compiled kernels are not kept: %s", error)
                return Found(parts, target, None, True)
            return Found(parts, target, directory, True)
    return Found(compiling.compiled(GROUPS[group], target, children), target, None, True)
