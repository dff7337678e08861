"""What PySpark's exceptions keep to themselves."""

from __future__ import annotations


def jvm_stack_trace(error: Exception) -> str:
    """The JVM's stack trace behind an error, "" where there is none.

    PySpark shows it where ``spark.sql.pyspark.jvmStacktrace.enabled`` is set, yet keeps it always.
    """
    found = getattr(error, "_stackTrace", None)
    return found if isinstance(found, str) else ""
