"""Turn a forked process into the program that a launcher was asked to run."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Sequence

from spark_kafkalog.starting.handover import Program


def prepare(program: Program, streams: Sequence[int]) -> None:
    """Give this process the program's streams, directory and environment.

    Python has read its own variables (`PYTHON…`) when this process's server started. The program was asked for with the
    same values, because the server's address depends on them (`handover.address`).
    """
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        if stream > 2:
            os.close(stream)
    os.chdir(program.directory)
    os.environ.clear()
    os.environ.update(program.environment)
    if not sys.flags.safe_path:
        # `python -m` imports from the directory that it is started in.
        sys.path[0] = program.directory
    importlib.invalidate_caches()
    is_unbuffered = bool(program.environment.get("PYTHONUNBUFFERED"))
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(write_through=is_unbuffered, line_buffering=True)  # type: ignore[union-attr]


def run(program: Program) -> None:
    """Run the program's module as `python -m` does.

    Raises:
        SystemExit: The program ends with an exit code.
        Exception: The program has failed.
    """
    sys.argv[1:] = program.arguments[2:]
    runpy.run_module(program.arguments[1], run_name="__main__", alter_sys=True)
