"""The fingerprint of what compiled kernels depend on besides the processor: versions, and the text of their sources."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

FORMATS = ("batch.py", "compression.py", "errors.py")
"""Modules of `kafkalog.records` that kernels import: their numbers are compiled in."""
_FORM = "2"
"""Changes when files of compiled kernels are made in another way."""


@cache
def fingerprint() -> Mapping[str, str]:
    """Return the versions and the digest of the sources, by name. This imports numba."""
    import llvmlite  # type: ignore[import-untyped]
    import numba
    import numpy

    return MappingProxyType(
        {
            "form": _FORM,
            "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
            "platform": f"{sys.platform}-{platform.machine()}",
            "numba": numba.__version__,
            "llvmlite": llvmlite.__version__,
            "numpy": numpy.__version__,
            "sources": sources_digest(),
        }
    )


@cache
def key() -> str:
    """Return a short digest of the fingerprint, for the names of files."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(fingerprint().items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sources_digest() -> str:
    """Return the digest of all sources that kernels are made of, wherever the package lies (also in a zip archive)."""
    records = files("kafkalog.records")
    kernels = records / "kernels"
    sources = [records / name for name in FORMATS]
    for folder in (kernels / "abi", kernels / "compiled"):
        sources += sorted((each for each in folder.iterdir() if each.name.endswith(".py")), key=lambda each: each.name)
    digest = hashlib.sha256()
    for each in sources:
        digest.update(each.name.encode() + b"\0" + each.read_bytes() + b"\0")
    return digest.hexdigest()[:32]
