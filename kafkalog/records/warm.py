"""Make files of compiled kernels ahead: `kafkalog spark warm`, or `python -m kafkalog.records.warm [GROUP…]`.

The module takes names of groups (`kernels.store.groups`); it makes all of them where none is given. Files that are
there are left as they are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafkalog.records.kernels.store import compiling, finding, places, processors
from kafkalog.records.kernels.store.finding import Found
from kafkalog.records.kernels.store.fingerprint import fingerprint
from kafkalog.records.kernels.store.groups import GROUPS
from kafkalog.records.kernels.store.processors import Processor


class WarmError(Exception):
    """The files were not made; the message says why and what to do."""


def warm(groups: Sequence[str] = (), processor: Processor | None = None, into: Path | None = None) -> list[Found]:
    """Find or compile groups of kernels, by default all, in `into` or in the first directory that is writable.

    Raises:
        WarmError: They were not compiled, or no directory is writable.
    """
    target = processor or processors.default()
    directories = [into.absolute()] if into is not None else places.places()

    def obtain(group: str) -> Found:
        return finding.obtain(group, directories, [target], target, children=1)

    # numba is imported here once, before threads ask for its version.
    fingerprint()
    try:
        with ThreadPoolExecutor(compiling.processors_here()) as pool:
            found = list(pool.map(obtain, groups or GROUPS))
    except compiling.CompileError as error:
        raise WarmError(str(error)) from error
    if any(each.directory is None for each in found):
        tried = ", ".join(map(str, directories))
        raise WarmError(f"no file could be written in {tried}: name a directory that you can write in")
    return found


def missing(processor: Processor, into: Path | None = None) -> list[str]:
    """Return the groups that have no file for a processor."""
    directories = [into.absolute()] if into is not None else places.places()
    return [group for group in GROUPS if finding.find(group, directories, [processor]) is None]


def told(found: Sequence[Found], seconds: float) -> str:
    """Say what kernels there are, for what, and where."""
    kernels = len({name for each in found for name in each.parts})
    where = ", ".join(dict.fromkeys(str(each.directory) for each in found))
    new = sum(each.is_new for each in found)
    done = f"compiled in {seconds:.1f} s" if new else "nothing to do"
    versions = fingerprint()
    return (
        f"{kernels} kernels for {found[0].processor.label}, {versions['python']}, numba {versions['numba']}: "
        f"{done}, {len(found)} files in {where}"
    )


def main(names: list[str]) -> int:
    """Make the files; return 0, 1 if that failed, or 2 for a group that does not exist."""
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        print(f"there are no kernels {', '.join(unknown)}; their groups are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        found = warm(names)
    except WarmError as error:
        print(error, file=sys.stderr)
        return 1
    print(told(found, time.monotonic() - started))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
