"""The versions of PySpark whose private parts were examined and tested."""

from __future__ import annotations

import pyspark

TESTED = frozenset({"4.2.0", "4.2.1", "4.3.0"})
"""All versions in the range of the extra ``spark``. A version is added when ``tests/spark`` passes with it."""


def is_tested(version: str = pyspark.__version__) -> bool:
    """Return whether private parts of this PySpark may be used."""
    return version in TESTED
