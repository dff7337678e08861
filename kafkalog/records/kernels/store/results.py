"""What numba compiled, as bytes, and back.

numba offers this only to its own cache. Private names that are used: `Dispatcher._cache` and the interface of what it
holds, `CompileResult._reduce` and `_rebuild`. Should a version change them, the kernels are compiled in each process as
if nothing were stored (`loader`), and `tests/kafkalog/records/kernels/test_store.py` fails.
"""

from __future__ import annotations

import pickle
from typing import Any

import numba.core.compiler
import numba.core.serialize

# numba's own annotations, where a version has them, do not say what these take.
_CompileResult: Any = numba.core.compiler.CompileResult
_dumps: Any = numba.core.serialize.dumps


class AdoptError(Exception):
    """Stored bytes cannot be used; the cause says why."""


class _Stored:
    """Takes the place of numba's cache of a function, and holds one compiled result."""

    cache_path = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.used = False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        target_context.refresh()
        result = _CompileResult._rebuild(target_context, *pickle.loads(self._data))
        self.used = True
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store nothing."""

    def enable(self) -> None:
        """Do nothing: it is always on."""

    def disable(self) -> None:
        """Do nothing: it is always on."""

    def flush(self) -> None:
        """Do nothing: it is never written."""


def compiled(kernel: Any, signature: Any) -> bytes:
    """Compile a kernel, and return what was compiled."""
    kernel.compile(signature.args)
    data: bytes = _dumps(kernel.overloads[signature.args]._reduce())
    return data


def adopt(kernel: Any, signature: Any, data: bytes) -> None:
    """Give a kernel what was compiled elsewhere, unless it has been compiled. The bytes must be of a trusted source.

    Raises:
        AdoptError: This version of numba does not take it.
    """
    if signature.args in kernel.overloads:
        return
    before, stored = kernel._cache, _Stored(data)
    kernel._cache = stored
    try:
        kernel.compile(signature.args)
    except Exception as error:  # pickle and LLVM raise anything
        raise AdoptError(f"the stored kernel {kernel.__name__} cannot be used") from error
    finally:
        kernel._cache = before
    if not stored.used:
        raise AdoptError(f"numba compiled {kernel.__name__} although it is stored")
