"""The cache directory of fetched programs, and what is said when one is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

FETCH_DEADLINE_S = 90.0
"""How long a test waits for a download; less than a test may take. `python -m peers.fetch` waits longer."""
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
    """The directory that holds every fetched program; made when absent."""
    named = os.environ.get("KAFKALOG_PEERS")
    root = Path(named) if named else Path.home() / ".cache" / "kafkalog" / "peers"
    root.mkdir(parents=True, exist_ok=True)
    return root


def fetch(what: str, command: Sequence[str], directory: Path) -> None:
    """Run a command that downloads, up to three times and FETCH_DEADLINE_S in all.

    Raises MissingPeerError with the end of what it said when it does not succeed.
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


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, filled by `build(directory)` if it is not there yet.

    Built beside and renamed, so that a broken download never looks complete; a file lock makes processes that
    want the same thing at the same time wait for one download. What could not be built is not tried again by
    this process: the next who asks gets the same MissingPeerError.
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
