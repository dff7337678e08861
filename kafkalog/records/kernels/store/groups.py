"""The sets of kernels that are loaded together, by name. A task should neither compile nor hold what it never calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

GROUPS: dict[str, tuple[str, ...]] = {
    "validation": ("reading.validate_records",),
    "reading": ("reading.decode_batches", "unpacking.unpack_batches", "reading.count_headers", "reading.scan_batches"),
    "writing": ("writing.encode_records",),
    "rows": ("rows.hash_keys", "rows.group_rows"),
    "text": ("text.first_not_enclosed",),
    "cleaning": (
        "batch_filtering.filter_batches",
        "key_indexing.index_records",
        "batch_filtering.filter_section",
        "key_indexing.index_batches",
        "batch_filtering.write_section",
    ),
    "checking": ("log_checking.check_records", "reading.scan_batches", "log_checking.check_batches"),
    "upgrading": ("upgrading.upgrade_messages",),
}
"""The names of kernels, `module.function`, by group; those that take longest to compile come first."""


def kernels(names: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Import the modules of kernels, and yield each one's name, the kernel and its signature. This imports numba."""
    for name in names:
        module_name, _, function = name.partition(".")
        module = import_module(f"kafkalog.records.kernels.compiled.{module_name}")
        kernel = getattr(module, function)
        yield name, kernel, module.SIGNATURES[kernel]


def divided(names: Iterable[str], parts: int) -> list[list[str]]:
    """Deal kernels out to at most that many parts that take about as long to compile; none is empty."""
    dealt: list[list[str]] = [[] for _ in range(parts)]
    for index, name in enumerate(names):
        turn, place = divmod(index, parts)
        dealt[place if turn % 2 == 0 else parts - 1 - place].append(name)
    return [each for each in dealt if each]
