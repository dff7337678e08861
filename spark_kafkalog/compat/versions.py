"""The versions of PySpark whose private parts were examined and tested."""

from __future__ import annotations

TESTED = frozenset({"4.2.0", "4.2.1", "4.3.0"})
"""All versions in the range of the extra `spark`. A version is added when `tests/spark_kafkalog` passes with it."""


def is_tested(version: str | None = None) -> bool:
    """Return whether private parts of a version of PySpark may be used, by default of the installed one."""
    if version is None:
        # Commands that end before they need Spark must not wait for it.
        import pyspark

        version = pyspark.__version__
    return version in TESTED
