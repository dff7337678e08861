"""The versions of PySpark whose private parts were looked at and tested."""

from __future__ import annotations

import pyspark

TESTED = frozenset({"4.2.0", "4.2.1", "4.3.0"})
"""All that there are in the range of the extra ``spark``. A version is added when ``tests/spark`` passes with it."""


def is_tested(version: str = pyspark.__version__) -> bool:
    """Whether what is private may be used with this PySpark."""
    return version in TESTED
