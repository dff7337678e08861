"""Finds the file system of a path or URL.

Log directories are read from local paths, `file:` URIs, `hdfs://` (through `hdfs-native`; install the extra
`hdfs`), and the other schemes that `pyarrow.fs` knows (`s3://`, `gs://`, `abfs://`). Their paths travel to
executors as text, and each process opens a file system of its own. Loads go to local directories and `hdfs://`.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_kafkalog.fs.arrow import ArrowFiles
from spark_kafkalog.fs.hdfs import HdfsFiles
from spark_kafkalog.fs.interface import Files, FileSystem
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.fs.paths import with_authority
from spark_kafkalog.process_cache import ProcessCache

LOCAL: FileSystem = LocalFiles()
REMOTE: ProcessCache[str, FileSystem] = ProcessCache(8)
"""Object stores by scheme and authority, of this process: each has connections."""
_LIKE_URL = re.compile("hdfs:|[A-Za-z][A-Za-z0-9+.-]+:/")
"""The beginning of a URL with a slash too few. A drive of Windows has one letter."""


class UnsupportedUrlError(ValueError):
    """A target that loads cannot write to."""


def file_system(path: str) -> FileSystem:
    """Return the file system to read a path from.

    Raises:
        ValueError: No file system serves its scheme.
    """
    parts = urlsplit(path)
    if parts.scheme in ("", "file") or path.startswith("/"):
        return LOCAL
    root = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme == "hdfs":
        return HdfsFiles(root)
    return REMOTE.get(root, lambda: ArrowFiles(root))


def open_files(to: str) -> tuple[Files, str]:
    """Return the file system of `--to` and the path in it.

    Raises:
        UnsupportedUrlError: The target is of another kind.
    """
    to = with_authority(to)
    if "://" not in to and not to.startswith("file:"):
        if not to:
            raise UnsupportedUrlError("--to is empty; name a directory or hdfs://host:port/directory")
        if _LIKE_URL.match(to):
            raise UnsupportedUrlError(
                f"{to}: is no URL, but looks like one; name hdfs://host:port/directory, file:///directory or "
                "/directory. A directory of that name below this one is ./NAME"
            )
        return LocalFiles(), str(Path(to).absolute())
    try:
        parts = urlsplit(to)
    except ValueError as error:
        raise UnsupportedUrlError(
            f"{to}: {error}; name hdfs://host:port/directory, file:///directory or /directory"
        ) from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedUrlError(f"{to}: names the host {parts.netloc}; write file:///directory")
        if not parts.path.startswith("/"):
            # Executors have other working directories.
            raise UnsupportedUrlError(f"{to}: names no directory from the root on; write file:///directory")
        return LocalFiles(), unquote(parts.path).rstrip("/") or "/"
    if parts.scheme == "hdfs":
        # As in Hadoop's Path: nothing is percent-encoded, and '?' and '#' do not end the path.
        address, _, path = to.partition("://")[2].partition("/")
        return HdfsFiles(f"hdfs://{address}"), "/" + path.strip("/")
    raise UnsupportedUrlError(
        f"{to}: loads go to hdfs://host:port/directory, file:///directory or /directory. They need an atomic "
        f"rename of directories that fails if the target exists, which {parts.scheme}:// is not known to have"
    )
