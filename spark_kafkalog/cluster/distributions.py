"""The installed distributions that an environment for executors needs, and their files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import kafkalog

LEFT_OUT = frozenset({"pyspark", "py4j"})
"""Spark brings its own on every host; a second copy could be of another version."""
OURS = ("kafkalog", "spark_kafkalog", "pyspark_kafkalog", "broker")
"""The packages of kafkalog's distribution; the last one only for `kafkalog` as a command."""
_REQUIRED_EXTRAS = frozenset({"spark"})
_EXTRAS = frozenset({"spark", "hdfs", "avro"})
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_UNNEEDED = re.compile(r"(.*/)?(tests?|include)/.*|.*\.(a|h|hpp|pxd|pyx|pyi|lib)")
"""Tests, headers and stubs, which programs that run do not import."""
_COMPILED = ("crc32c", "cramjam", "fastavro", "hdfs-native", "llvmlite", "numba", "numpy", "pandas", "pyarrow", "scipy")
_TRIMMED = frozenset({*_COMPILED, "fsspec", "kazoo"})
"""The distributions whose `_UNNEEDED` files are left out. A program may need those of others, such as a user's own."""

_MADE_HERE = frozenset({".lock", ".kernels", ".nbi", ".nbc"})
"""Ends of files beside kafkalog's that were made in this place: locks, and compiled kernels (see `kernels`)."""


class PackError(Exception):
    """The environment cannot be packed; the message says why, and what to do."""


class Requirement(NamedTuple):
    """A line of a distribution's metadata."""

    name: str
    extras: frozenset[str]
    extra: str | None
    """The extra of the requiring distribution that this belongs to; None if it is always needed."""
    has_other_marker: bool
    """True if it is needed only on some platforms or versions of Python."""


def parse_requirement(text: str) -> Requirement:
    """Parse one entry of `Requires-Dist`.

    Raises:
        PackError: It has no name.
    """
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        raise PackError(f"the requirement {text!r} of an installed package cannot be read")
    marker = found[4] or ""
    extra = _EXTRA.search(marker)
    others = _EXTRA.sub("", marker).strip(" ()")
    extras = frozenset(each.strip() for each in (found[2] or "").split(",") if each.strip())
    return Requirement(canonical(found[1]), extras, extra[1] if extra else None, others not in ("", "and"))


def canonical(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(extra_names: Iterable[str] = ()) -> list[metadata.Distribution]:
    """Return kafkalog's dependencies as they are installed, and `extra_names` with theirs, sorted by name.

    Raises:
        PackError: One is not installed.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = [("kafkalog", _EXTRAS), *((canonical(name), frozenset[str]()) for name in extra_names)]
    for name, _ in waiting:
        if _installed(name) is None:
            raise PackError(f"{name} is not installed as a distribution here: pip install {name}, and pack again")
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen or name in LEFT_OUT:
            continue
        seen.add((name, extras))
        distribution = _installed(name)
        if distribution is not None:
            found[name] = distribution
            waiting += _required(name, distribution, extras)
    del found["kafkalog"]
    return [found[name] for name in sorted(found)]


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _required(
    name: str, distribution: metadata.Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    for text in distribution.requires or ():
        each = parse_requirement(text)
        if each.extra is not None and each.extra not in extras:
            continue
        optional = each.has_other_marker or (each.extra is not None and each.extra not in _REQUIRED_EXTRAS)
        if _installed(each.name) is None and not optional and each.name not in LEFT_OUT:
            raise PackError(f"{each.name}, which {name} needs, is not installed here: pip install 'kafkalog[spark]'")
        yield each.name, each.extras


class File(NamedTuple):
    """A file to pack: where it is, and its path below the archive's packages."""

    source: Path
    name: str


def files_of(distribution: metadata.Distribution) -> Iterator[File]:
    """Return the files of a distribution that programs import.

    Raises:
        PackError: The distribution does not list its files, or was installed for development.
    """
    name = distribution.metadata["Name"]
    listed = distribution.files
    if listed is None:
        raise PackError(
            f"{name} does not list its files: pack from an environment that pip has made (python -m venv, pip install)"
        )
    count = 0
    is_trimmed = canonical(name) in _TRIMMED
    for each in listed:
        path = each.as_posix()
        if path.startswith("..") or path.endswith(".pth") or (is_trimmed and _UNNEEDED.fullmatch(path)):
            continue
        source = Path(str(distribution.locate_file(each)))
        if source.is_file():
            count += ".dist-info/" not in path
            yield File(source, path)
    if not count:
        raise PackError(f"{name} has no files of its own here: install it without --editable, and pack again")


def own_files() -> Iterator[File]:
    """Return kafkalog's files, also if it is installed for development, and its metadata."""
    root = Path(str(kafkalog.__file__)).parents[1]
    for package in OURS:
        for source in sorted((root / package).rglob("*")):
            if source.is_file() and source.suffix not in _MADE_HERE:
                yield File(source, source.relative_to(root).as_posix())
    distribution = metadata.distribution("kafkalog")
    for each in distribution.files or ():
        if each.parent.name.endswith(".dist-info") and each.name in ("METADATA", "entry_points.txt", "WHEEL"):
            yield File(Path(str(distribution.locate_file(each))), each.as_posix())
