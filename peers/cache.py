"""Keep fetched programs in a cache directory; skip or fail tests whose program is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FETCH_DEADLINE_S = 90.0
"""The time that a test waits for a download; less than the time-out of a test. `python -m peers.fetch` waits longer."""
_TRIES = 3
_failed: dict[str, str] = {}


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
    """Return the directory of all fetched programs; create it if it is absent."""
    named = os.environ.get("KAFKALOG_PEERS")
    root = Path(named) if named else Path.home() / ".cache" / "kafkalog" / "peers"
    root.mkdir(parents=True, exist_ok=True)
    return root


def fetch(what: str, command: Sequence[str], directory: Path) -> None:
    """Run a command that downloads, up to three times, for at most FETCH_DEADLINE_S in all.

    Raises:
        MissingPeerError: The command does not succeed. The text has the end of its output.
    """
    end = time.monotonic() + FETCH_DEADLINE_S
    said = ""
    for _ in range(_TRIES):
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=left,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else said
            break
        if done.returncode == 0:
            return
        said = done.stdout
    raise MissingPeerError(
        f"missing because {what} could not be fetched in {FETCH_DEADLINE_S:.0f} s (`python -m peers.fetch` "
        f"fetches every peer with more patience); `{' '.join(command)}` said:\n{said[-1500:]}"
    )


def why_missing(fetch: Callable[[], object]) -> str | None:
    """Return why `fetch` cannot bring a program here, or None where it can."""
    try:
        fetch()
    except MissingPeerError as error:
        return str(error)
    return None


def unpack(archive: Path, directory: Path) -> None:
    """Unpack a tar archive, whatever its compression, and nothing beside the directory."""
    with tarfile.open(archive) as tar:
        # Python has the filter from 3.11.4 on.
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(directory, **safely)


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """Return the directory `name` of the cache; fill it with `build(directory)` if it is absent.

    It is built under another name and renamed, so that a broken download never looks complete. A file lock lets
    processes that need the same directory wait for one download. A build that failed is not tried again in this
    process: later calls fail with the same error.

    Raises:
        MissingPeerError: The build has failed.
    """
    root = cache_root()
    done = root / name
    if done.is_dir():
        return done
    if name in _failed:
        raise MissingPeerError(_failed[name])
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
        except BaseException as error:
            if isinstance(error, MissingPeerError):
                _failed[name] = str(error)
            shutil.rmtree(making, ignore_errors=True)
            raise
    return done
