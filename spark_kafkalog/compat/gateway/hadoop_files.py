"""Small files in Hadoop's file systems, at any path that Spark can write to.

Python has no interface to these file systems, so the functions go through py4j to the JVM (`SparkContext._jvm` and
`_jsc`). Without py4j, as in Spark Connect, nothing is read or written, and every answer is unknown. The same holds for
a PySpark that was not tested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafkalog.compat.versions import is_tested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names(spark: SparkSession, directory: str) -> list[str] | None:
    """Return the names in a directory, none if it does not exist; None if unknown."""
    found = _path(spark, directory)
    if found is None:
        return None
    files, path = found
    return [str(each.getPath().getName()) for each in files.listStatus(path)] if files.exists(path) else []


def read_text(spark: SparkSession, path: str) -> str | None:
    """Return the text of a small file; None if it is empty or does not exist, or if that is unknown."""
    found = _path(spark, path)
    if found is None or not found[0].exists(found[1]):
        return None
    stream = found[0].open(found[1])
    try:
        return bytes(stream.readAllBytes()).decode() or None
    finally:
        stream.close()


def write_text(spark: SparkSession, path: str, text: str) -> bool:
    """Write a small file, also in place of another; return False if that is impossible.

    Spark's manager of checkpoint files writes a temporary file and renames it, so a crash leaves no part of the text.
    """
    found = _path(spark, path)
    if found is None:
        return False
    context: Any = spark.sparkContext
    managers = context._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = managers.CheckpointFileManager.create(found[1].getParent(), context._jsc.hadoopConfiguration())
    manager.mkdirs(found[1].getParent())
    stream = manager.createAtomic(found[1], True)
    try:
        stream.write(bytearray(text.encode()))
    except BaseException:
        stream.cancel()
        raise
    stream.close()
    return True


def _path(spark: SparkSession, text: str) -> tuple[Any, Any] | None:
    """Return the file system of a path and the path, both objects of the JVM; None without a JVM."""
    if not is_tested():
        return None
    try:
        context: Any = spark.sparkContext
        jvm, java_context = context._jvm, context._jsc
    except (AttributeError, NotImplementedError):
        return None
    if jvm is None or java_context is None:
        return None
    path = jvm.org.apache.hadoop.fs.Path(text)
    return path.getFileSystem(java_context.hadoopConfiguration()), path
