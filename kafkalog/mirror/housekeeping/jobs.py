"""Run the regular jobs of a mirror beside the copying: configurations, heartbeats, checkpoints.

All of it runs in one thread, with connections of its own, so that a slow broker does not hold the records up. A job
that fails is reported, and done again when it is next due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass
class Job:
    """Something to do every `interval` seconds, for the first time at once."""

    name: str
    interval: float
    action: Callable[[], None]
    due_at: float = 0.0
    failed: bool = False


class Housekeeping:
    """Run jobs in a thread, from `start` to `join`."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-housekeeping", daemon=True)

    def start(self, jobs: Sequence[Job]) -> None:
        """Begin with these jobs."""
        self._jobs = list(jobs)
        self._thread.start()

    def end(self) -> None:
        """Begin no further job, and say nothing of one that fails from now on."""
        self._ended.set()

    def join(self) -> None:
        """Wait for the end of the job that is being done."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            now = time.monotonic()
            for job in self._jobs:
                if job.due_at <= now and not self._ended.is_set():
                    self._do(job)
            soonest = min((job.due_at for job in self._jobs), default=float("inf"))
            self._ended.wait(min(max(soonest - time.monotonic(), 0.0), threading.TIMEOUT_MAX))

    def _do(self, job: Job) -> None:
        try:
            job.action()
        except Exception as error:
            # Whatever it is: records must go on, and so must the other jobs.
            if not job.failed and not self._ended.is_set():
                logger.warning("%s: %s; it is tried again every %g s", job.name, error, job.interval)
            job.failed = True
        else:
            if job.failed:
                logger.warning("%s works again", job.name)
            job.failed = False
        job.due_at = time.monotonic() + job.interval
