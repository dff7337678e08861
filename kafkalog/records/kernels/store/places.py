"""Directories for files of compiled kernels, and how several processes use one.

A file holds code. It is read only if nobody but root, its group, this user and the owner of the package could have
written it. A file is replaced by one rename, so a reader sees all of it or none. Whoever compiles holds a lock
(`flock`), which ends with its process.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkalog.records.kernels import store

VARIABLE = "KAFKALOG_KERNELS"
"""The environment variable that names a directory to look in first."""
SUFFIX = ".kernels"
UNUSED_S = 90 * 24 * 3600
"""Files that nobody has read or written for so many seconds are removed when a file is written beside them."""
_POLL_S = 0.02
_MAX_FILE = 64 << 20


def places() -> list[Path]:
    """Return the directories to look in, and to write to if they are writable, the first choice first.

    They are those of `KAFKALOG_KERNELS` and `NUMBA_CACHE_DIR`, the package's own, the user's cache directory, and the
    directory of Spark's executor, which its workers share and which Spark removes.
    """
    found = [
        _from(os.environ.get(VARIABLE), ""),
        _from(os.environ.get("NUMBA_CACHE_DIR"), "kafkalog"),
        package_directory(),
        _user_directory(),
        _from(_executor_directory(), "kafkalog-kernels"),
    ]
    return list(dict.fromkeys(each for each in found if each is not None))


def package_directory() -> Path:
    """Return the package's directory; if the package lies in an archive, this is no directory."""
    return Path(store.__path__[0]).parent / "cache"


def _from(given: str | None, below: str) -> Path | None:
    return Path(os.path.abspath(given), below) if given else None


def _executor_directory() -> str:
    """Return the directory for blocks of Spark's executor, which it tells its Python processes as a list."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    # The variable also configures Spark. Then it names directories that stay.
    return given if os.path.basename(given).startswith("blockmgr-") and os.path.isdir(given) else ""


def _user_directory() -> Path | None:
    given = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(given):
        # Without HOME this asks for the user's entry in passwd; in a container the user may have none.
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        given = os.path.join(home, "Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(given, "kafkalog", "kernels")


def read(directory: Path, name: str) -> bytes | None:
    """Return a file's bytes; None if it is missing, cannot be read, or could be from somebody else."""
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except NotADirectoryError:
        return _read_from_archive(directory, name)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE or not _is_trusted(status):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_FILE)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_trusted(status: os.stat_result) -> bool:
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        owners.add(os.stat(store.__path__[0]).st_uid)
    # Root's group may write: that is how images for OpenShift are made.
    others = stat.S_IWOTH if status.st_gid == 0 else stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid in owners and not status.st_mode & others


def _read_from_archive(directory: Path, name: str) -> bytes | None:
    loader: Any = getattr(store.__spec__, "loader", None)
    if directory != package_directory() or not hasattr(loader, "archive"):
        return None
    try:
        data: bytes = loader.get_data(str(directory / name))
    except (OSError, EOFError, ValueError):
        return None
    return data


@contextlib.contextmanager
def locked(directory: Path, name: str, timeout: float) -> Iterator[bool]:
    """Hold the lock of a file within the block; yield whether the directory is writable.

    The lock is not held if it is not free within `timeout` seconds, or if the file system has none: compiling twice
    is better than not at all.
    """
    descriptor = _open_lock(directory, f"{name}.lock")
    if descriptor is None:
        yield False
        return
    try:
        _wait_for_lock(descriptor, timeout)
        yield True
    finally:
        os.close(descriptor)


def _open_lock(directory: Path, name: str) -> int | None:
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            return None
        # The mode suffices for `flock`, also for a file of another user.
        return os.open(directory / name, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None


def _wait_for_lock(descriptor: int, timeout: float) -> None:
    import fcntl

    end = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return
            time.sleep(_POLL_S)
        except OSError:
            return
        else:
            return


def write(directory: Path, name: str, data: bytes) -> None:
    """Write a file by one rename. Call it with the lock held: it removes what killed writers of this file have left.

    Raises:
        OSError: The file cannot be written; the message names it.
    """
    for left in directory.glob(f".{name}.*"):
        left.unlink(missing_ok=True)
    new = directory / f".{name}.{os.getpid()}-{time.monotonic_ns()}"
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            # The umask may be such that others cannot read, or that they can write.
            os.fchmod(descriptor, 0o644)
            file.write(data)
        os.replace(new, directory / name)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    _remove_unused(directory)


def _remove_unused(directory: Path) -> None:
    oldest = time.time() - UNUSED_S
    for each in directory.glob(f"*{SUFFIX}*"):
        with contextlib.suppress(OSError):
            status = each.stat()
            if max(status.st_atime, status.st_mtime) < oldest:
                each.unlink()
