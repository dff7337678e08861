"""Load the kernels on request; until then plain Python does the work, where it can.

Callers name the functions through this module (`loader.validate_records`), since `load` replaces them. Importing it
imports neither numba nor numpy. `load` does: it takes about half a second if the group has a file of compiled kernels
(`store`), and several seconds otherwise, because it compiles one. `kafkalog spark warm` makes the files ahead, as when
an image is built.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkalog.records.kernels.plain import reading as plain_reading

if TYPE_CHECKING:
    from kafkalog.records.compression import Buffer

logger = logging.getLogger(__name__)

COMMON = ("validation", "reading", "writing", "text", "rows")
"""The groups that `load` loads where none is named."""

validate_records: Callable[[Buffer, int, int, int, int, bool], tuple[int, int, int, int]] = (
    plain_reading.validate_records
)

_lock = threading.Lock()
_loaded: frozenset[str] = frozenset()
_starting = threading.Lock()
_loaders: dict[str, threading.Thread] = {}


def ready() -> bool:
    """Return whether the compiled check of produced batches is in use."""
    return "validation" in _loaded


def load(*groups: str) -> None:
    """Load groups of kernels (`store.groups`), compiling those that have no file; return when they are in use.

    Any thread may call it. Kernels that are not asked for are neither compiled nor held in memory.

    Raises:
        Exception: Numba raises it where the kernels can be compiled neither by child processes nor in this one.
    """
    global _loaded
    if _loaded.issuperset(groups or COMMON):
        return
    with _lock:
        for group in groups or COMMON:
            if group not in _loaded:
                _load(group)
                if group == "validation":
                    _serve_validation()
                _loaded = _loaded | {group}


def _load(group: str) -> None:
    from kafkalog.records.kernels.store import compiling, finding, groups, places, processors, results

    names = groups.GROUPS[group]
    try:
        found = finding.obtain(group, places.places(), processors.usable())
        for name, kernel, signature in groups.kernels(names):
            results.adopt(kernel, signature, found.parts[name])
            # Arrays that can be written to are taken as well then, and other types are an error. Numba would compile
            # the kernel for them in this process, and hold up its other threads for seconds.
            kernel.disable_compile()
    except (compiling.CompileError, results.AdoptError):
        logger.warning("kernels are compiled in this process, and are not kept", exc_info=True)
        for _, kernel, signature in groups.kernels(names):
            if signature.args not in kernel.overloads:
                kernel.compile(signature.args)


def _serve_validation() -> None:
    global validate_records
    from kafkalog.records.kernels.compiled import reading

    # The entry point is what numba's dispatcher calls after it has looked at the arguments' types. It takes any buffer,
    # and costs 0.2 us where dispatch over numpy arrays costs 0.7.
    (compiled,) = reading.validate_records.overloads.values()
    validate_records = compiled.entry_point


def load_in_background(groups: Sequence[str] = ("validation",)) -> threading.Thread:
    """Call `load` on a thread, and return the thread.

    Until then, and if that fails, the plain functions are used. A failure is logged.
    """
    return in_background(" ".join(groups), lambda: load(*groups))


def in_background(what: str, load: Callable[[], None]) -> threading.Thread:
    """Call `load` on a thread, once for each `what`, and return the thread; log a failure."""
    with _starting:
        if what not in _loaders:
            thread = threading.Thread(target=_load_quietly, args=(load,), name=f"load-{what}", daemon=True)
            thread.start()
            _loaders[what] = thread
        return _loaders[what]


def _load_quietly(load: Callable[[], None]) -> None:
    try:
        load()
    except Exception:
        logger.warning("record kernels could not be compiled; plain Python serves, slowly", exc_info=True)
