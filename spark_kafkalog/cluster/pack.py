"""`kafkalog spark pack`: this environment as an archive for `--archives`, or kafkalog alone for `--py-files`.

The options are in `spark_kafkalog.cli.pack`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import Distribution
from pathlib import Path

import kafkalog
from kafkalog.records.kernels.store import places
from spark_kafkalog.cluster import launcher
from spark_kafkalog.cluster.distributions import OURS, File, PackError, files_of, needed, own_files
from spark_kafkalog.cluster.kernels import compiled_files

ARCHIVES = (".tar.gz", ".tgz")
"""Ends of names of archives that Spark unpacks with their permissions. It loses those of `.tar` and `.zip`."""
MANIFEST = "kafkalog-environment.json"
"""Says what the archive was made for."""


def run(arguments: argparse.Namespace) -> int:
    """Write the archive, print how to submit it, and return the exit code."""
    output: Path = arguments.output
    if not output.name.endswith((*ARCHIVES, ".zip")):
        print(f"kafkalog: -o {output}: expected a name that ends with {', '.join(ARCHIVES)} or .zip", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="kafkalog-pack-") as scratch, _replacing(output) as part:
            is_zip = output.suffix == ".zip"
            # Before the kernels, whose compilation may take half a minute.
            packages = [] if is_zip else needed(arguments.package)
            own = [*own_files(), *compiled_files(arguments.cpu, Path(scratch))]
            if is_zip:
                write_zip(part, own)
                told = _how_to_register
            else:
                write_archive(part, own, packages, arguments.base, arguments.compression_level)
                told = _how_to_submit
        print(told(output))
    except PackError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"kafkalog: {error.filename or output}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """Write beside the target and rename, so that no half of an archive is ever submitted.

    Raises:
        PackError: There can be no such file.
    """
    if output.is_dir():
        raise PackError(f"-o {output}: it is a directory")
    try:
        handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise PackError(f"-o {output}: {error.strerror}") from None
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o644)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def write_archive(
    output: Path, own: Iterable[File], distributions: Sequence[Distribution], base: str | None, level: int
) -> None:
    """Write kafkalog's `own` files and other distributions as a compressed tar.

    Raises:
        PackError: Something that is needed is not installed.
        OSError: A file cannot be read or written.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    system = f"{platform.system()} {platform.machine()}"
    manifest = {
        "kafkalog": kafkalog.__version__,
        "python": version,
        "system": system,
        "packages": {each.metadata["Name"]: each.version for each in distributions},
    }
    with tarfile.open(output, "w:gz", compresslevel=level) as archive:
        _add_text(archive, MANIFEST, json.dumps(manifest, indent=1) + "\n", 0o644)
        _add_text(archive, "bin/python", launcher.script(version, system, base), 0o755)
        for each in _once([*own, *(file for one in distributions for file in files_of(one))]):
            archive.add(each.source.resolve(), f"{launcher.PACKAGES}/{each.name}", filter=_anonymous)


def _once(files: Iterable[File]) -> Iterator[File]:
    """Distributions may share files, such as the `__init__` of a namespace."""
    seen = set()
    for each in files:
        if each.name not in seen:
            seen.add(each.name)
            yield each


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who owns the files here; times stay, because byte code is valid by them."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, int(time.time())
    archive.addfile(entry, io.BytesIO(data))


def write_zip(output: Path, own: Iterable[File]) -> None:
    """Write kafkalog's own files, without its dependencies, for `--py-files`.

    Raises:
        OSError: A file cannot be read or written.
    """
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in own:
            if each.name.split("/")[0] in OURS[:3] and each.name.endswith((".py", places.SUFFIX)):
                archive.write(each.source, each.name)


def _how_to_submit(output: Path) -> str:
    version = ".".join(map(str, sys.version_info[:2]))
    python = "./environment/bin/python"
    size = f"{output.stat().st_size >> 20} MiB"
    system = f"{platform.system()} {platform.machine()}"
    return f"""\
{output}: kafkalog {kafkalog.__version__} and what it needs, {size}, for Python {version}, {system}
client mode (standalone, YARN), where the driver needs it unpacked in its working directory:
  mkdir environment && tar -xf {output} -C environment
  PYSPARK_PYTHON={python} spark-submit --archives {output}#environment app.py
cluster mode on YARN:
  PYSPARK_PYTHON={python} spark-submit --master yarn --deploy-mode cluster --archives {output}#environment app.py"""


def _how_to_register(output: Path) -> str:
    return f"""\
{output}: kafkalog {kafkalog.__version__} without its dependencies, which all hosts need
  spark-submit --py-files {output} app.py
and in the application:
  from pyspark_kafkalog import DefaultSource
  spark.dataSource.register(DefaultSource)"""
