"""Compile modules of `kernels.compiled` with the checked intrinsics."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkalog.records.kernels.checked import memory

_KERNELS = Path(__file__).parents[1]
_CACHES = Path(__file__).parent / "__pycache__" / "kernels"


@cache
def checked(name: str) -> ModuleType:
    """Return the module `compiled.<name>` with checked kernels, compiled now or taken from their cache.

    Call a kernel through `memory.call`.
    """
    import numba

    # numba would use the other build's cached kernels for these, since their source files are the same. The setting is
    # global, and other users of numba have their own.
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(_cache_directory())
    try:
        module = import_module(f"{__package__}.{name}")
    finally:
        config.CACHE_DIR = before
    for kernel, signature in module.SIGNATURES.items():
        kernel.compile(signature.args)
    return module


@cache
def kernels(name: str) -> dict[str, Any]:
    """Return the kernels of `compiled.<name>` by name, as functions that call the checked ones."""
    return {kernel.__name__: partial(memory.call, kernel) for kernel in checked(name).SIGNATURES}


@cache
def _cache_directory() -> Path:
    """Return the cache directory of this state of the sources; remove those of other states.

    numba notices changes of a kernel's own file only, but these kernels depend on the checks as well.
    """
    digest = hashlib.sha256()
    # The numbers of the formats are defined in the second folder.
    for path in (*sorted(_KERNELS.rglob("*.py")), *sorted(_KERNELS.parent.glob("*.py"))):
        digest.update(path.read_bytes())
    directory = _CACHES / digest.hexdigest()[:16]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="kafkalog-checked-"))
    for other in _CACHES.iterdir():
        if other != directory:
            shutil.rmtree(other, ignore_errors=True)
    return directory
