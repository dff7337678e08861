"""Convert what numba compiled to bytes, and back.

numba offers this only to its own cache. Private names that are used: `Dispatcher._cache` and the interface of what it
holds, `CompileResult._reduce` and `_rebuild`. Should a version change them, the kernels are compiled in each process as
if nothing were stored (`loader`), and `tests/kafkalog/records/kernels/test_store.py` fails.

numba's own cache imports all that the compiler knows before it loads a function (`BaseContext.refresh`), which takes
0.15 s of processor time. Machine code only needs its symbols. Those are stored with it, and the compiler is imported
only if one of them is unknown: LLVM ends the process if it meets such a symbol.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numba.core.compiler
import numba.core.runtime.nrt
import numba.core.serialize

# numba's own annotations, where a version has them, do not say what these take.
_CompileResult: Any = numba.core.compiler.CompileResult
_dumps: Any = numba.core.serialize.dumps
_runtime: Any = numba.core.runtime.nrt.rtsys
_EXTERNAL = re.compile(
    r"""^(?:declare\s[^@]*@"?(?P<function>[^"(\s]+)"?\(|@"?(?P<variable>[^"=\s]+)"?\s*=\s*external\s)""", re.MULTILINE
)
"""In LLVM's text: a function or variable that is defined elsewhere."""
_BUILT_IN = "llvm."
"""The beginning of the names of functions that LLVM replaces by instructions."""


class AdoptError(Exception):
    """Stored bytes cannot be used; the cause says why."""


class _Stored:
    """Takes the place of numba's cache of a function, and holds one compiled result."""

    cache_path = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.used = False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        symbols, reduced = pickle.loads(self._data)
        _runtime.initialize(target_context)
        if unknown(symbols):
            target_context.refresh()
        result = _CompileResult._rebuild(target_context, *pickle.loads(reduced))
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
    result = kernel.overloads[signature.args]
    return pickle.dumps((external_symbols(result.library.get_llvm_str()), _dumps(result._reduce())))


def external_symbols(text: str) -> tuple[str, ...]:
    """Return the names that a module of LLVM, given as text, takes from the process that loads it."""
    names = {found["function"] or found["variable"] for found in _EXTERNAL.finditer(text)}
    return tuple(sorted(name for name in names if not name.startswith(_BUILT_IN)))


def unknown(symbols: tuple[str, ...]) -> list[str]:
    """Return the symbols that LLVM does not find in this process."""
    return [name for name in symbols if llvmlite.binding.address_of_symbol(name) is None]


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
