"""Python byte code of the packages that a task imports, where installing them has not left it."""

from __future__ import annotations

import importlib.util
import os
import py_compile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "kafkalog",
    "spark_kafkalog",
    "pyspark_kafkalog",
    "numba",
    "llvmlite",
    "numpy",
    "pyarrow",
    "crc32c",
    "cramjam",
    "lz4",
)
"""Spark's own packages come from archives (`compat.workers.precompiled`)."""
_FLAGS_AT, _STAMP_AT, _END = 4, 8, 16
_IS_HASHED = 0b01


@dataclass
class Count:
    """Modules of packages."""

    modules: int = 0
    missing: int = 0
    """Without byte code before."""
    compiled: int = 0
    reason: str = ""
    """The reason why a module was not compiled."""


def count(packages: Sequence[str] = PACKAGES, *, compile_missing: bool = False) -> Count:
    """Count modules and those without byte code, and compile these if told to."""
    found = Count()
    for source in _sources(packages):
        found.modules += 1
        if _is_current(source):
            continue
        found.missing += 1
        if compile_missing:
            try:
                py_compile.compile(str(source), doraise=True)
                found.compiled += 1
            except (OSError, py_compile.PyCompileError) as error:
                found.reason = str(error).strip()
    return found


def _sources(packages: Sequence[str]) -> Iterator[Path]:
    for name in packages:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            for directory, below, files in os.walk(place):
                # Tests of libraries are many, and no task imports them.
                below[:] = [each for each in below if each not in ("tests", "__pycache__")]
                yield from (Path(directory, each) for each in sorted(files) if each.endswith(".py"))


def _is_current(source: Path) -> bool:
    """Return whether Python takes the byte code of a module (PEP 552)."""
    try:
        with open(importlib.util.cache_from_source(str(source)), "rb") as file:
            header = file.read(_END)
        status = source.stat()
    except OSError:
        return False
    if len(header) < _END or header[:_FLAGS_AT] != importlib.util.MAGIC_NUMBER:
        return False
    flags = int.from_bytes(header[_FLAGS_AT:_STAMP_AT], "little")
    if flags & _IS_HASHED:
        return header[_STAMP_AT:] == importlib.util.source_hash(source.read_bytes())
    stamp = b"".join((int(value) & 0xFFFFFFFF).to_bytes(4, "little") for value in (status.st_mtime, status.st_size))
    return header[_STAMP_AT:] == stamp
