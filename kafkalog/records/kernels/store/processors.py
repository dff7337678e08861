"""The processors that kernels are compiled for.

x86 has levels (x86-64 psABI): code for one runs on every processor of that level. Kernels are as fast with the
instructions of a level as with all of this processor's (docs/adr/0001), so they are compiled for a level unless told
otherwise, and one file serves a cluster of different machines.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from typing import Any, NamedTuple

BASELINE = "x86-64-v3"
"""The highest level that kernels are compiled for by default: Intel since 2013, AMD since 2015."""

_X86 = ("x86_64", "AMD64")
_LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""The features that each level adds, as LLVM names them."""


class UnknownProcessorError(ValueError):
    """The name of a processor is unknown here; the message lists the known ones."""


class Processor(NamedTuple):
    """A processor as LLVM names it."""

    label: str
    """The name in commands and in the names of files."""
    cpu: str
    features: str
    """The features added to (+) and taken from (-) those that `cpu` implies, separated by commas."""


@cache
def native() -> Processor:
    """Return this very processor, with all its instructions."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    cpu, features = str(llvm.get_host_cpu_name()), str(_features().flatten())
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return Processor(f"native-{cpu}-{digest}", cpu, features)


@cache
def levels() -> tuple[Processor, ...]:
    """Return the levels of this architecture that this processor has, from the lowest."""
    if platform.machine() not in _X86:
        return (Processor("generic", "generic", ""),)
    features = _features()
    found = []
    for label, needed in _LEVELS.items():
        if not all(features.get(each) for each in needed):
            break
        found.append(Processor(label, label, ""))
    return tuple(found)


def usable() -> tuple[Processor, ...]:
    """Return those whose code this processor runs, the best first."""
    return (native(), *reversed(levels()))


def default() -> Processor:
    """Return the one that kernels are compiled for where nothing else is said."""
    labels = [each.label for each in levels()]
    return levels()[labels.index(BASELINE) if BASELINE in labels else -1]


def named(text: str) -> Processor:
    """Return the processor that a user names: `native`, `generic`, or a level, also one that this processor lacks.

    Raises:
        UnknownProcessorError: There is none of that name for this architecture.
    """
    if text == "native":
        return native()
    if text == "generic":
        return levels()[0]
    if platform.machine() in _X86 and text in _LEVELS:
        return Processor(text, text, "")
    known = ("native", "generic", *(_LEVELS if platform.machine() in _X86 else ()))
    raise UnknownProcessorError(
        f"{text} is no processor that kernels can be compiled for; there are {', '.join(known)}"
    )


@cache
def _features() -> Any:
    """Return what LLVM finds of this processor's instructions: a mapping from names to whether it has them."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_features()
