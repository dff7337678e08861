"""Run one client of a history as a process."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.history import consuming, own, producing
from tests.history.plan import ClientSpec, Library, Role
from tests.history.producing import FencedError, HangingError
from tests.history.recording import Ending, Recorder

ClientMain = Callable[[ClientSpec, str, Recorder, Ending], None]

MAINS: dict[tuple[Role, Library], ClientMain] = {
    (Role.WRITE, Library.LIBRDKAFKA): producing.write,
    (Role.WRITE, Library.KAFKALOG): producing.write_own,
    (Role.TRANSACT, Library.LIBRDKAFKA): producing.transact,
    (Role.TRANSACT, Library.KAFKALOG): own.transact,
    (Role.COPY, Library.LIBRDKAFKA): consuming.copy,
    (Role.GROUP, Library.LIBRDKAFKA): consuming.group,
    (Role.GROUP, Library.KAFKALOG): own.group,
    (Role.READ, Library.LIBRDKAFKA): consuming.read,
    (Role.READ, Library.KAFKALOG): consuming.read_own,
}
FENCED = 3
"""The exit code of a client that another one has replaced."""
HANGING = 4
"""The exit code of a client that cannot continue and must be replaced."""


def file_name(spec: ClientSpec) -> str:
    """Return the file name of the client's part of the history."""
    return spec.client.replace(" ", "-") + ".jsonl"


def run(spec: ClientSpec, bootstrap: str, directory: Path) -> None:
    """Run the process of a client. Its events and the output of its library go to `directory`."""
    output = os.open(directory / "clients.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Before the file is there: who sees it may send signals.
    ending = Ending()
    recorder = Recorder(spec.client, directory / file_name(spec))
    try:
        MAINS[spec.role, spec.library](spec, bootstrap, recorder, ending)
    except FencedError:
        os._exit(FENCED)
    except HangingError:
        os._exit(HANGING)


def _end_with_parent() -> None:
    """End this process when the scenario ends, for any reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
