"""Adds byte code to the archives that PySpark's Python processes import from.

PySpark ships `python/lib/pyspark.zip` and `py4j-*-src.zip` with sources only. Python stores no byte code next to an
archive, so each process that Spark starts (the planner of a stream, the daemon that workers are forked from, the one
that commits a micro-batch) compiles its imports again. With a `.pyc` in the archive, next to its source, Python takes
that instead.

The byte code has the form of "unchecked hash-based" pycs (PEP 552). Pycs with a time stamp would be valid in one time
zone only, because `zipimport` reads an archive's times as local time. Another version of Python does not know the
byte code and takes the source, as before. Existing entries stay where they are, because a process that has read an
archive's directory goes on using it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import shutil
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ARCHIVES = ("pyspark.zip", "py4j-*-src.zip")
_UNCHECKED_HASH = 0b01
_HEADER = struct.Struct("<4sI8s")
"""Magic number, flags, hash of the source (PEP 552)."""


class PrecompileError(Exception):
    """An archive is missing, broken, or cannot be changed; the message says which and why."""


@dataclass(frozen=True)
class Status:
    """Counts of one archive: modules, those with byte code for this Python, and those with any other byte code."""

    archive: Path
    modules: int
    current: int
    other: int

    @property
    def complete(self) -> bool:
        """Return whether nothing is left to do."""
        return self.current == self.modules and not self.other


def find_archives(spark_home: Path | None = None) -> list[Path]:
    """Return the archives of a Spark installation, by default that of `SPARK_HOME` or of the `pyspark` package.

    Raises:
        PrecompileError: There is none.
    """
    home = spark_home or _spark_home()
    directory = home / "python" / "lib"
    found = [path for pattern in ARCHIVES for path in sorted(directory.glob(pattern))]
    if not found:
        raise PrecompileError(f"there is no {ARCHIVES[0]} in {directory}: is {home} a Spark installation?")
    return found


def _spark_home() -> Path:
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise PrecompileError("Spark is not installed here, and SPARK_HOME is not set: name it with --spark-home")
    return Path(package.origin).parent


def status(archive: Path) -> Status:
    """Count the modules of an archive.

    Raises:
        PrecompileError: The archive cannot be read.
    """
    with _reading(archive) as opened:
        sources = _sources(opened)
        compiled = [name for name in opened.namelist() if name.endswith(".pyc") and name[:-1] in sources]
        current = sum(_is_current(opened.read(name), opened.read(name[:-1])) for name in compiled)
    return Status(archive, len(sources), current, len(compiled) - current)


def precompile(archive: Path) -> Status:
    """Give every module byte code for this Python, in place of any other, unless it has that already.

    The archive is replaced by one rename.

    Raises:
        PrecompileError: The archive cannot be read or replaced. Nothing has changed.
    """
    before = status(archive)
    if before.complete:
        return before
    with _reading(archive) as opened:
        compiled = {f"{name}c": _compile(opened.read(name), f"{archive}/{name}") for name in _sources(opened)}
    _replace(archive, compiled)
    return status(archive)


def undo(archive: Path) -> Status:
    """Remove byte code from an archive.

    Raises:
        PrecompileError: The archive cannot be read or replaced. Nothing has changed.
    """
    before = status(archive)
    if before.current or before.other:
        _replace(archive, {})
    return status(archive)


@contextlib.contextmanager
def _reading(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except (OSError, zipfile.BadZipFile) as error:
        raise PrecompileError(f"{archive} cannot be read: {error}") from None


def _sources(opened: zipfile.ZipFile) -> set[str]:
    return {name for name in opened.namelist() if name.endswith(".py")}


def _is_current(code: bytes, source: bytes) -> bool:
    expected = _HEADER.pack(importlib.util.MAGIC_NUMBER, _UNCHECKED_HASH, importlib.util.source_hash(source))
    return code.startswith(expected)


def _compile(source: bytes, path: str) -> bytes:
    """Return a hash-based pyc; `path` appears in tracebacks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(source, path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError) as error:
        raise PrecompileError(f"{path} cannot be compiled by this Python: {error}") from None
    header = _HEADER.pack(importlib.util.MAGIC_NUMBER, _UNCHECKED_HASH, importlib.util.source_hash(source))
    return header + marshal.dumps(code)


def _replace(archive: Path, compiled: dict[str, bytes]) -> None:
    """Replace an archive by a copy with exactly this byte code."""
    # A link, as distributions make them, stays one.
    archive = archive.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=archive.parent, prefix=f".{archive.name}.")
        copy = Path(name)
        try:
            with open(handle, "r+b") as file:
                file.write(archive.read_bytes())
                _write(file, compiled)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(archive, copy)
            _copy_owner(archive, copy)
            copy.replace(archive)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PrecompileError(
            f"{archive} cannot be replaced: {error.strerror or error}. Run this as the owner of {archive.parent}, or "
            "in an environment of your own"
        ) from None


def _copy_owner(archive: Path, copy: Path) -> None:
    there, here = archive.stat(), copy.stat()
    if (there.st_uid, there.st_gid) != (here.st_uid, here.st_gid):
        os.chown(copy, there.st_uid, there.st_gid)


def _write(file: IO[bytes], compiled: dict[str, bytes]) -> None:
    """Replace the byte code at the end of an archive."""
    with zipfile.ZipFile(file, "a") as opened:
        sources = _sources(opened)
        old = [each for each in opened.infolist() if each.filename.endswith(".pyc") and each.filename[:-1] in sources]
        if old:
            # `zipfile` has no public way to remove an entry. A Python without these private attributes is refused.
            if not all(hasattr(opened, name) for name in ("start_dir", "filelist", "NameToInfo")):
                raise OSError("this version of Python does not let byte code be taken out; install PySpark anew")
            opened.start_dir = min(each.header_offset for each in old)
            opened.filelist = [each for each in opened.filelist if each not in old]
            opened.NameToInfo = {each.filename: each for each in opened.filelist}
            if any(each.header_offset > opened.start_dir for each in opened.filelist):
                raise OSError("it has byte code between its sources, which was not put there by this command")
            # Makes `zipfile` write the directory again even if no entry follows.
            opened.comment = opened.comment
        for name, code in sorted(compiled.items()):
            source = opened.getinfo(name[:-1])
            entry = zipfile.ZipInfo(name, source.date_time)
            entry.external_attr = source.external_attr
            entry.compress_type = zipfile.ZIP_DEFLATED
            opened.writestr(entry, code)
