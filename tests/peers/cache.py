"""The cache directory of fetched programs, and what is said when one is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


class MissingPeerError(RuntimeError):
    """A foreign program cannot run here; the message begins with "missing because"."""


def require(reason: str | None) -> None:
    """Skip the running test for `reason`; fail it under `CI=true`. None means that nothing is missing."""
    if reason is None:
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        raise MissingPeerError(reason)
    import pytest

    pytest.skip(reason)


def cache_root() -> Path:
    """The directory that holds every fetched program; made when absent."""
    named = os.environ.get("KAFKALOG_PEERS")
    root = Path(named) if named else Path.home() / ".cache" / "kafkalog" / "peers"
    root.mkdir(parents=True, exist_ok=True)
    return root


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, filled by `build(directory)` if it is not there yet.

    Built beside and renamed, so that a broken download never looks complete; a file lock makes processes that
    want the same thing at the same time wait for one download.
    """
    root = cache_root()
    done = root / name
    if done.is_dir():
        return done
    done.parent.mkdir(parents=True, exist_ok=True)
    lock_path = done.parent / f".{done.name}.lock"
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.is_dir():
            return done
        making = Path(tempfile.mkdtemp(prefix=f".{done.name}.", dir=done.parent))
        try:
            build(making)
            making.rename(done)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return done
