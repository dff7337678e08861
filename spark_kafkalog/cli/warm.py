"""`kafkalog spark warm`: what a Spark executor would otherwise compile at its first task (`kafkalog.records.warm`)."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog.records.kernels.store.processors import Processor

EXAMPLES = """\
examples:
  kafkalog spark warm
  kafkalog spark warm --status
  kafkalog spark warm --cpu x86-64-v2 --cpu native
  kafkalog spark warm --into kernels

Run it with the Python that Spark's workers run, where you install kafkalog or build the image. With --status, the exit
code is 1 if something is missing.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `warm`."""
    parser = commands.add_parser(
        "warm",
        help="compile ahead what an executor's first task needs",
        description="Compile the loops over records for a processor, and Python modules to byte code, ahead.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="write compiled loops there, for processes that have KAFKALOG_KERNELS=DIR, and leave byte code alone "
        "(default: the package's directory if it is writable, else the user's cache directory)",
    )
    parser.add_argument(
        "--cpu",
        action="append",
        metavar="CPU",
        help="the processor: a level of x86 such as x86-64-v2, generic (the lowest level), or native (this one and its "
        "like); may be repeated (default: the highest level up to x86-64-v3 that this processor has)",
    )
    parser.add_argument("--no-byte-code", action="store_true", help="leave Python byte code alone")
    parser.add_argument("--status", action="store_true", help="list the compiled kernels, and change nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return 1 if kernels were not compiled, or `--status` found some missing, and 2 for a bad CPU."""
    from kafkalog.records.kernels.store import processors

    try:
        targets = [processors.named(each) for each in arguments.cpu or ()] or [processors.default()]
    except processors.UnknownProcessorError as error:
        print(f"kafkalog: --cpu {error}", file=sys.stderr)
        return 2
    leaves_byte_code = arguments.no_byte_code or arguments.into is not None
    if arguments.status:
        is_done = _status_of_kernels(targets, arguments.into)
        return int(not is_done) if leaves_byte_code else int(not _byte_code(compile_missing=False) or not is_done)
    if not _make_kernels(targets, arguments.into):
        return 1
    if not leaves_byte_code:
        _byte_code(compile_missing=True)
    return 0


def _make_kernels(targets: list[Processor], into: Path | None) -> bool:
    from kafkalog.records import warm
    from kafkalog.records.kernels.store import processors

    for target in targets:
        started = time.monotonic()
        try:
            found = warm.warm(processor=target, into=into)
        except warm.WarmError as error:
            print(f"kafkalog: {error}", file=sys.stderr)
            return False
        print(warm.told(found, time.monotonic() - started), flush=True)
        if target not in processors.usable():
            print(f"this machine's processor is not {target.label}: it does not use them")
    return True


def _status_of_kernels(targets: list[Processor], into: Path | None) -> bool:
    from kafkalog.records import warm
    from kafkalog.records.kernels.store.groups import GROUPS

    is_done = True
    for target in targets:
        missing = warm.missing(target, into)
        is_done = is_done and not missing
        there = len(GROUPS) - len(missing)
        print(f"kernels for {target.label}: {there} of {len(GROUPS)} files are there{_listed(missing)}")
    return is_done


def _listed(missing: list[str]) -> str:
    return f", without {', '.join(missing)}" if missing else ""


def _byte_code(*, compile_missing: bool) -> bool:
    """Print the state of byte code, after compiling what is missing if told to; return whether it is complete."""
    from spark_kafkalog.cli import byte_code
    from spark_kafkalog.compat.workers import precompiled

    found = byte_code.count(compile_missing=compile_missing)
    left = found.missing - found.compiled
    print(f"{found.modules - left} of {found.modules} modules of kafkalog and its libraries have byte code", end="")
    print(f", {found.compiled} compiled now" if found.compiled else "", end="")
    print(f" ({found.reason})" if found.reason else "")
    is_done = not left
    try:
        for archive in precompiled.find_archives():
            status = (precompiled.precompile if compile_missing else precompiled.status)(archive)
            is_done = is_done and status.complete
            print(f"{archive}: {status.current} of {status.modules} modules have byte code")
    except precompiled.PrecompileError as error:
        # Spark may lie elsewhere, or belong to another user; that takes nothing from the rest.
        print(f"PySpark's archives are left as they are: {error}")
    return is_done
