"""Staging directories, in which runs prepare what they publish, and the sweeping of those whose run is dead.

A run owns `_staging/<topic>/<run id>` and a file `lease` in it, which a thread of the driver rewrites every
`HEARTBEAT_S`. The sweeping run compares the lease's modification time with that of a file that it has just written.
Both times are from the file system's clock, so the machines' clocks do not matter. A lease older than `stale_after_s`
is dead. A lease of this machine (since its boot, in this process namespace) is dead at once if its process no longer
runs. Otherwise its age is that by the machine's monotonic clock, so setting the time of day makes no run look dead.

That can be wrong: a driver may be suspended for longer. So sweeping first renames the directory, atomically. From then
on everything that its run does fails, above all publishing, because the source of that rename is gone. So a part of a
run can never be published.

Earlier versions had their runs in `<topic>/_staging/<run id>`. These are judged and swept, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from spark_kafkalog import faults
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.layout.file_names import old_staging_path, staging_path

HEARTBEAT_S = 10.0
STALE_AFTER_S = 600.0
LEASE = "lease"
_SWEPT = ".swept-"
logger = logging.getLogger(__name__)


class SweptError(RuntimeError):
    """Another run considered this one dead and swept its staging directory; nothing was published."""


class Staging:
    """One run's directory, with a lease that is renewed until the `with` block ends.

    Then the rest of the directory is deleted. After a crash, the next run sweeps it.
    """

    def __init__(self, files: Files, topic_path: str, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.run_id = new_run_id()
        self.topic_path = topic_path
        self.path = f"{staging_path(topic_path)}/{self.run_id}"
        self._files = files
        self._heartbeat_s = heartbeat_s
        self._renewing = threading.Lock()
        """One writer at a time: HDFS fails the earlier one of two that rewrite a file, as if the file were gone."""
        self._ended = threading.Event()
        self._lost: OSError | None = None
        self._thread = threading.Thread(target=self._keep, name=f"lease-{self.run_id}", daemon=True)

    def __enter__(self) -> Self:
        self._make_directories()
        faults.point("staging-made")
        self.renew()
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

    def _make_directories(self) -> None:
        """Create the run's directory, that of the topic, and their parents, and force their names to the device.

        A load is on the device only if every name on its path is.
        """
        for path in (f"{self.topic_path}/", self.path):
            at, new = path.rpartition("/")[0], []
            while at and self._files.stat(at) is None:
                at = at.rpartition("/")[0]
                new.append(at or "/")
            self._files.make_directories(path.rstrip("/"))
            for each in new:
                self._files.sync(each)

    def check(self) -> None:
        """Check that the lease could be renewed.

        Raises:
            SweptError: It could not, because the directory is gone.
        """
        if isinstance(self._lost, FileNotFoundError) or self._files.stat(f"{self.path}/{LEASE}") is None:
            raise SweptError(
                f"another run took this one ({self.run_id}) for dead and swept its staging directory, so nothing was "
                "published. Was this process suspended, or the file system out of reach? --stale-after sets how long "
                "a run may be silent. Run the load again"
            )

    def renew(self) -> None:
        """Rewrite the lease. Any thread may call it.

        Raises:
            FileNotFoundError: The directory is gone.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lease = {
            "machine": _machine(),
            "process": os.getpid(),
            "clock": _clock(),
            "monotonic": time.monotonic(),
            "host": socket.gethostname(),
            "renewed": now,
        }
        with self._renewing:
            self._files.replace(f"{self.path}/{LEASE}", json.dumps(lease).encode())

    def _keep(self) -> None:
        while not self._ended.wait(self._heartbeat_s):
            try:
                self.renew()
                self._lost = None
            except OSError as error:
                # A NameNode that is away for a moment is no reason to give up before the lease is stale.
                self._lost = error
                logger.warning("the lease of run %s cannot be renewed: %s", self.run_id, error)


def new_run_id() -> str:
    """Return a name that no other run has, with the time when the run began."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Judge:
    """Decides which runs are dead, from the view of a live run."""

    files: Files
    roots: tuple[str, ...]
    """The directories of all runs of a topic."""
    oldest_ms: float
    """A lease that was last renewed before this time of the file system is stale."""
    oldest_s: float
    """The same by the monotonic clock of this machine."""

    @classmethod
    def of(cls, files: Files, own: Staging, stale_after_s: float) -> Judge:
        """Take the time from the file system's clock, by the lease of `own`.

        Raises:
            SweptError: The lease is gone.
        """
        own.renew()
        lease = files.stat(f"{own.path}/{LEASE}")
        if lease is None:
            own.check()
        assert lease is not None
        roots = (staging_path(own.topic_path), old_staging_path(own.topic_path))
        return cls(files, roots, lease.modified_ms - stale_after_s * 1000, time.monotonic() - stale_after_s)

    def is_dead(self, run: str) -> bool:
        """Return whether a run is dead, by its lease, or by its directory if it died before it had one."""
        return all(self._is_dead(f"{root}/{run}") for root in self.roots)

    def _is_dead(self, path: str) -> bool:
        lease = self.files.stat(f"{path}/{LEASE}")
        found = lease or self.files.stat(path)
        if found is None:
            return True
        known = None if lease is None else self._is_dead_here(path)
        return found.modified_ms < self.oldest_ms if known is None else known

    def _is_dead_here(self, path: str) -> bool | None:
        """Return whether a run of this machine is dead; None if the age of its lease's file is to decide."""
        try:
            lease = json.loads(self.files.read(f"{path}/{LEASE}"))
            machine, process = lease["machine"], int(lease["process"])
        except (OSError, ValueError, KeyError, TypeError):
            # The lease is being written, or the file is no lease.
            return None
        if machine is None or machine != _machine():
            return None
        if not _runs(process):
            return True
        try:
            # Earlier versions did not write this.
            return float(lease["monotonic"]) < self.oldest_s if lease["clock"] == _clock() else None
        except (ValueError, KeyError, TypeError):
            return None


def _runs(process: int) -> bool:
    """Return whether a process of this machine may be running."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _machine() -> str | None:
    """Return an id of this machine's boot and process namespace; None if it cannot be found."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _clock() -> str:
    """Return the id of the monotonic clock: processes in another time namespace have another one."""
    try:
        return os.readlink("/proc/self/ns/time")
    except OSError:
        return ""


def sweep(files: Files, own: Staging, stale_after_s: float = STALE_AFTER_S) -> list[str]:
    """Delete the directories of dead runs, and return their names. Those that cannot be deleted are left for later."""
    judge = Judge.of(files, own, stale_after_s)
    found = [(root, entry.name) for root in judge.roots for entry in files.list(root) if entry.name != own.run_id]
    swept = [run for root, run in found if judge.is_dead(run) and _delete(files, root, run)]
    files.remove_empty(old_staging_path(own.topic_path))
    return swept


def _delete(files: Files, root: str, run: str) -> bool:
    path = f"{root}/{run}"
    try:
        if not run.startswith(_SWEPT):
            renamed = f"{root}/{_SWEPT}{run}-{secrets.token_hex(4)}"
            files.rename(path, renamed)
            faults.point("sweep-renamed")
            path = renamed
        files.delete(path)
    except OSError as error:
        logger.warning("staging directory %s cannot be swept: %s", path, error)
        return False
    return True
