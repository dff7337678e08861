"""The stack trace that PySpark's exceptions hide."""

from __future__ import annotations

from spark_kafkalog.compat.versions import is_tested


def jvm_stack_trace(error: Exception) -> str:
    """Return the JVM's stack trace of an error, "" if there is none, or this PySpark was not tested.

    PySpark always stores it, but shows it only if `spark.sql.pyspark.jvmStacktrace.enabled` is set.
    """
    if not is_tested():
        return ""
    found = getattr(error, "_stackTrace", None)
    return found if isinstance(found, str) else ""
