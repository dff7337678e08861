"""Check by an audit hook that a test that starts a process requests the fixture `processes`.

The markers by which `make check` and `make test` choose tests follow from fixtures. A test that starts a process
without saying so would run in `make check` and make it slow, so the hook refuses the start.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"})
"""The audit events of CPython that tell of a new process (https://docs.python.org/3/library/audit_events.html)."""
EXEMPT = frozenset({"platform", "ctypes.util", "kafkalog.records.kernels.store.compiling"})
"""Modules that may start a process in any test: what the standard library asks of the system, and the compilation of
kernels, which happens once for a checkout."""
REQUEST = 'it needs the fixture `processes`, by a fixture of its own or by pytest.mark.usefixtures("processes")'


class ProcessStartedError(Exception):
    """A test started a process without the fixture `processes`."""


class ProcessGuard:
    """Refuse the start of processes while a test runs that must not start any.

    Attributes:
        test: Node id of the running test that must not start a process; None where starts are allowed.
        refused: Messages about refused starts since `check`, for code that swallows the exception.
    """

    def __init__(self) -> None:
        self.test: str | None = None
        self.refused: list[str] = []

    def install(self) -> None:
        """Add the audit hook; Python cannot remove it again."""
        sys.addaudithook(self.audit)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse an event that starts a process where that is not allowed.

        Raises:
            ProcessStartedError: The event starts a process.
        """
        if self.test is None or event not in EVENTS or _comes_from_exempt_module():
            return
        # Popen's second argument is the command; the other events have what they start first, or nothing.
        what = args[1] if event == "subprocess.Popen" else args[:1]
        message = f"{self.test} starts a process ({event}: {what!r}); {REQUEST}"
        self.refused.append(message)
        raise ProcessStartedError(message)

    def check(self) -> None:
        """Fail the running test if a start was refused since the last call."""
        refused, self.refused = self.refused, []
        if refused:
            pytest.fail("\n".join(refused), pytrace=False)


def leave_no_garbage() -> None:
    """Collect garbage, and have children never collect what they inherit.

    Clients of librdkafka have threads, which a forked process lacks: it crashes where it frees such a client.
    """
    gc.collect()
    gc.freeze()


def _comes_from_exempt_module() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in EXEMPT:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
