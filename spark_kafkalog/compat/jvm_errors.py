"""The stack trace that PySpark's exceptions hide."""

from __future__ import annotations


def jvm_stack_trace(error: Exception) -> str:
    """Return the JVM's stack trace of an error, "" if there is none.

    PySpark always stores it, but shows it only if ``spark.sql.pyspark.jvmStacktrace.enabled`` is set.
    """
    found = getattr(error, "_stackTrace", None)
    return found if isinstance(found, str) else ""
