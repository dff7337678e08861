"""Compile kernels in child processes, several at a time.

The compiler's memory ends with the children, and a setting of numba's that says for which processor to compile is not
touched in this process, where others may use numba, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from kafkalog.records.kernels.store import groups
from kafkalog.records.kernels.store.child import LENGTH
from kafkalog.records.kernels.store.processors import Processor

TIMEOUT_S = 300.0
MAX_CHILDREN = 4
"""Each takes some 200 MB. With more, one kernel that takes as long as two others would be what all wait for."""
_LAST_WORDS = 2000


class CompileError(Exception):
    """A child process could not be started, failed, or took too long; the message says which, and what it said."""


def compiled(names: Sequence[str], processor: Processor, children: int = MAX_CHILDREN) -> dict[str, bytes]:
    """Compile kernels for a processor, in at most so many processes; return them by name.

    Raises:
        CompileError: That failed.
    """
    if not sys.executable:
        raise CompileError("this Python does not say where its executable is (sys.executable)")
    reading_end, writing_end = os.pipe()
    running: list[tuple[list[str], subprocess.Popen[bytes]]] = []
    try:
        for part in groups.divided(names, min(children, processors_here())):
            child = _start(part, processor, reading_end)
            running.append((part, child))
        end = time.monotonic() + TIMEOUT_S
        found: dict[str, bytes] = {}
        for part, child in running:
            found |= _result(part, child, end)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompileError(f"kernels were not compiled: {error}") from error
    finally:
        # Children that have not finished end because this pipe does.
        os.close(writing_end)
        os.close(reading_end)
        for _, child in running:
            child.kill()
            child.communicate()
    return {name: found[name] for name in names}


def processors_here() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(names: Sequence[str], processor: Processor, alive: int) -> subprocess.Popen[bytes]:
    # Settings of numba's that a user has made for other code must not get into what is stored.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {
        "NUMBA_CPU_NAME": processor.cpu,
        "NUMBA_CPU_FEATURES": processor.features,
        # The child must import the same package as this process, whatever its directory and import path.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "kafkalog.records.kernels.store.child", str(alive), *names],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(alive,),
    )


def _result(names: Sequence[str], child: subprocess.Popen[bytes], end: float) -> dict[str, bytes]:
    output, errors = child.communicate(timeout=max(end - time.monotonic(), 0.1))
    if child.returncode:
        said = errors.decode(errors="replace").strip()[-_LAST_WORDS:]
        raise CompileError(f"the process that compiles kernels ended with {child.returncode}: {said}")
    found, at = {}, 0
    for name in names:
        if len(output) < at + LENGTH.size:
            raise CompileError("the process that compiles kernels wrote too little")
        (size,) = LENGTH.unpack_from(output, at)
        at += LENGTH.size
        found[name] = output[at : at + size]
        at += size
    return found
