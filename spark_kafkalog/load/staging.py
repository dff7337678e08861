"""Directories in which runs prepare what they publish, and the sweeping of those whose run is dead.

A run owns ``_staging/<run id>`` and a file ``lease`` in it, written anew every ``HEARTBEAT_S`` by a thread of the
driver. Who sweeps compares the lease's modification time with that of a file he has just written himself: both are the
file system's clock, so that the machines' clocks do not matter. A lease older than ``stale_after_s`` is dead.

That can be wrong: a driver may be suspended for longer. Therefore a directory that is swept is first renamed, at once.
Whatever its run does then fails, and publishing above all: the source of that rename is gone. Never can a part of a
run be published.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from . import faults
from .files import Files
from .names import STAGING

HEARTBEAT_S = 10.0
STALE_AFTER_S = 600.0
LEASE = "lease"
_SWEPT = ".swept-"
_log = logging.getLogger(__name__)


class SweptError(RuntimeError):
    """Another run took this one for dead and swept its staging directory; nothing was published."""


class Staging:
    """One run's directory below ``topic_path``/_staging, with a lease that is kept until the ``with`` block ends.

    What is left of the directory then is deleted; after a crash, the next run sweeps it.
    """

    def __init__(self, files: Files, topic_path: str, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.run_id = new_run_id()
        self.path = f"{topic_path}/{STAGING}/{self.run_id}"
        self._files = files
        self._heartbeat_s = heartbeat_s
        self._ended = threading.Event()
        self._lost: OSError | None = None
        self._thread = threading.Thread(target=self._keep, name=f"lease-{self.run_id}", daemon=True)

    def __enter__(self) -> Self:
        self._files.make_directories(self.path)
        faults.point("staging-made")
        self._beat()
        faults.point("lease-taken")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._files.delete(self.path)

    def check(self) -> None:
        """SweptError where the lease could not be kept, because the directory is gone."""
        if isinstance(self._lost, FileNotFoundError) or self._files.stat(f"{self.path}/{LEASE}") is None:
            raise SweptError(
                f"another run took this one ({self.run_id}) for dead and swept its staging directory, so nothing was "
                "published. Was this process suspended, or the file system out of reach? --stale-after sets how long "
                "a run may be silent. Run the load again"
            )

    def _beat(self) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._files.replace(f"{self.path}/{LEASE}", f"{socket.gethostname()} {os.getpid()} {now}\n".encode())

    def _keep(self) -> None:
        while not self._ended.wait(self._heartbeat_s):
            try:
                self._beat()
                self._lost = None
            except OSError as error:
                # A NameNode that is away for a moment is no reason to give up before the lease is stale.
                self._lost = error
                _log.warning("the lease of run %s cannot be renewed: %s", self.run_id, error)


def new_run_id() -> str:
    """A name that no other run has, and that tells when it began."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def sweep(files: Files, topic_path: str, own: Staging, stale_after_s: float = STALE_AFTER_S) -> list[str]:
    """Delete the directories of runs whose lease is stale; their names. What cannot be deleted is left for later."""
    root = f"{topic_path}/{STAGING}"
    lease = files.stat(f"{own.path}/{LEASE}")
    if lease is None:
        return []
    swept = []
    for entry in files.list(root):
        path = f"{root}/{entry.name}"
        if entry.name == own.run_id or not _is_stale(files, path, lease.modified_ms - stale_after_s * 1000):
            continue
        try:
            if not entry.name.startswith(_SWEPT):
                renamed = f"{root}/{_SWEPT}{entry.name}-{secrets.token_hex(4)}"
                files.rename(path, renamed)
                faults.point("sweep-renamed")
                path = renamed
            files.delete(path)
            swept.append(entry.name)
        except OSError as error:
            _log.warning("staging directory %s cannot be swept: %s", path, error)
    return swept


def _is_stale(files: Files, path: str, oldest_ms: float) -> bool:
    """By the lease, or, where a run died before it had one, by the directory itself."""
    found = files.stat(f"{path}/{LEASE}") or files.stat(path)
    return found is not None and found.modified_ms < oldest_ms
