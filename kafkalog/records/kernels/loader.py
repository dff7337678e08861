"""Load the kernels on request, compiled or from numba's cache; until then plain Python does the work.

Callers name the functions through this module (`loader.validate_records`), since `load` replaces them. Importing it
imports neither numba nor numpy; `load` does, which takes about a second with the kernels in numba's cache and about
five without. A broker needs only the check of produced batches, and `load_validation` loads that alone.

The cache lies beside the package, in the user's cache directory where that is read-only, or where NUMBA_CACHE_DIR says.
Where none of these is writable, a temporary directory takes its place for the process. `python -m
kafkalog.records.warm` fills it ahead, as when an image is built.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkalog.records.kernels.plain import reading as plain_reading

if TYPE_CHECKING:
    from kafkalog.records.compression import Buffer

logger = logging.getLogger(__name__)

COMPILE_TIMEOUT_S = 300.0

_Signatures = Callable[[], Iterator[tuple[Any, Any]]]

validate_records: Callable[[Buffer, int, int, int, bool], tuple[int, int, int, int]] = plain_reading.validate_records

_lock = threading.Lock()
_ready = False
_validation_ready = False
_starting = threading.Lock()
_loaders: dict[str, threading.Thread] = {}


def ready() -> bool:
    """Return whether the compiled check of produced batches is in use."""
    return _validation_ready


def load() -> None:
    """Take the kernels from numba's cache, or compile them; return when they are in use. Any thread may call it."""
    global _ready
    if _ready:
        return
    with _lock:
        if _ready:
            return
        with _writable_cache():
            for kernel, signature in _signatures():
                kernel.compile(signature.args)
        _serve_validation()
        _ready = True


def load_validation() -> None:
    """Load only the check of produced batches: a broker's memory should not hold kernels that it never calls."""
    if _validation_ready:
        return
    with _lock:
        if _validation_ready:
            return
        with _writable_cache(_validation):
            for kernel, signature in _validation():
                kernel.compile(signature.args)
        _serve_validation()


def _serve_validation() -> None:
    global _validation_ready, validate_records
    from kafkalog.records.kernels.compiled import reading

    # The entry point is what numba's dispatcher calls after it has looked at the arguments' types. It takes any buffer,
    # and costs 0.2 us where dispatch over numpy arrays costs 0.7.
    (compiled,) = reading.validate_records.overloads.values()
    validate_records = compiled.entry_point
    _validation_ready = True


def load_cleaning() -> None:
    """Take the kernels of log cleaning from numba's cache; compile missing ones in a subprocess.

    They are separate, since most brokers never need them.

    Raises:
        Exception: Numba or the subprocess raises it.
    """
    _prepare("cleaning", _cleaning_signatures)
    compile_cleaning()


def compile_cleaning() -> None:
    """Load the kernels of log cleaning without a subprocess: the compiler stays in memory."""
    with _lock:
        _compile(_cleaning_signatures)


def load_upgrading() -> None:
    """Load the kernel that turns sets of v0 and v1 into batches of v2, as `load_cleaning` does."""
    _prepare("upgrading", _upgrading_signatures)
    compile_upgrading()


def compile_upgrading() -> None:
    """Load the upgrading kernel without a subprocess."""
    with _lock:
        _compile(_upgrading_signatures)


def load_checking() -> None:
    """Take the kernels that check logs from the cache, or compile them; tools that read segment files need them."""
    with _lock:
        _compile(_checking_signatures)


def _compile(signatures: _Signatures) -> None:
    with _writable_cache(signatures):
        for kernel, signature in signatures():
            kernel.compile(signature.args)


def load_in_background() -> threading.Thread:
    """Call `load_validation` on a thread, and return the thread; missing kernels are compiled in a subprocess.

    Until then, and if that fails, the plain functions are used. A failure is logged.
    """

    def load() -> None:
        _prepare("validation", _validation)
        load_validation()

    return in_background("validation", load)


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


def _prepare(what: str, signatures: _Signatures) -> None:
    """Make sure that the cache has these kernels; compile missing ones in a subprocess, as `warm`'s `what`."""
    with _lock, _writable_cache(signatures) as directory:
        if not all(_is_cached(kernel, signature) for kernel, signature in signatures()):
            _compile_in_subprocess(directory, what)


def _signatures() -> Iterator[tuple[Any, Any]]:
    from kafkalog.records.kernels.compiled import reading, rows, text, unpacking, writing

    for module in (reading, writing, unpacking, text, rows):
        yield from module.SIGNATURES.items()


def _validation() -> Iterator[tuple[Any, Any]]:
    from kafkalog.records.kernels.compiled import reading

    yield reading.validate_records, reading.SIGNATURES[reading.validate_records]


def _cleaning_signatures() -> Iterator[tuple[Any, Any]]:
    from kafkalog.records.kernels.compiled import batch_filtering, key_indexing

    yield from key_indexing.SIGNATURES.items()
    yield from batch_filtering.SIGNATURES.items()


def _upgrading_signatures() -> Iterator[tuple[Any, Any]]:
    from kafkalog.records.kernels.compiled import upgrading

    yield from upgrading.SIGNATURES.items()


def _is_cached(kernel: Any, signature: Any) -> bool:
    return kernel._cache.load_overload(signature, kernel.targetctx) is not None


def _compile_in_subprocess(directory: str | None, what: str) -> None:
    environment = dict(os.environ)
    # The subprocess must import the same package as this process, whatever its directory and import path.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    if directory is not None:
        environment["NUMBA_CACHE_DIR"] = directory
    subprocess.run(
        [sys.executable, "-m", "kafkalog.records.warm", what],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=COMPILE_TIMEOUT_S,
        check=True,
    )


_temporary: tempfile.TemporaryDirectory[str] | None = None


@contextmanager
def _writable_cache(kernels: Callable[[], Iterator[tuple[Any, Any]]] = _signatures) -> Iterator[str | None]:
    """Import the kernels' modules with a cache that works; yield its directory where it is a temporary one."""
    global _temporary
    import numba

    if _temporary is None:
        try:
            list(kernels())
        except (RuntimeError, OSError):
            # numba found no writable place for a cache, and refuses to wrap the functions.
            _temporary = tempfile.TemporaryDirectory(prefix="kafkalog-kernels-")
    if _temporary is None:
        yield None
        return
    # Set it only while the functions are wrapped: it is global, and other users of numba have their own setting.
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, _temporary.name
    try:
        list(kernels())
    finally:
        config.CACHE_DIR = before
    yield _temporary.name


def _checking_signatures() -> Iterator[tuple[Any, Any]]:
    from kafkalog.records.kernels.compiled import log_checking, reading

    yield reading.scan_batches, reading.SIGNATURES[reading.scan_batches]
    yield from log_checking.SIGNATURES.items()
