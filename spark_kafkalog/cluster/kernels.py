"""Compiled kernels for archives (`kafkalog.records.warm`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkalog.records import warm
from kafkalog.records.kernels.store import finding, processors
from kafkalog.records.kernels.store.groups import GROUPS
from spark_kafkalog.cluster.distributions import File, PackError

DIRECTORY = "kafkalog/records/kernels/cache"
"""The path at which a process finds the files, in the directory or archive that it imports kafkalog from."""


def compiled_files(cpus: Sequence[str], scratch: Path) -> list[File]:
    """Return files of all kernels for processors (`processors.named`), by default for one that most hosts have.

    Files that are missing are compiled, and kept where `kafkalog spark warm` keeps them, or in `scratch`.

    Raises:
        PackError: A processor is unknown, or kernels cannot be compiled.
    """
    found: list[File] = []
    try:
        for target in [processors.named(each) for each in cpus] or [processors.default()]:
            for group, each in zip(GROUPS, _warm(target, scratch), strict=True):
                name = finding.file_name(group, each.processor)
                found.append(File((each.directory or scratch) / name, f"{DIRECTORY}/{name}"))
    except processors.UnknownProcessorError as error:
        raise PackError(f"--cpu {error}") from error
    except warm.WarmError as error:
        raise PackError(str(error)) from error
    return found


def _warm(target: processors.Processor, scratch: Path) -> list[finding.Found]:
    try:
        return warm.warm(processor=target)
    except warm.WarmError:
        # Perhaps none of the usual directories is writable.
        return warm.warm(processor=target, into=scratch)
