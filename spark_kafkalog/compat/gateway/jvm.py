"""The driver's JVM: its environment, its executors, and programs that executors run without PySpark.

PySpark reaches the JVM by attributes of SparkContext that are private (`_jvm`, `_jsc`). What is called there is Spark's
public Java interface, but for `SparkContext.getExecutorMemoryStatus`. Only `kafkalog spark check` uses it. The command
works with untested versions, too, since it is there to find out what is wrong: where an attribute is missing, it says
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class NoJvmError(Exception):
    """The session has no JVM that can be asked; the message says what to do instead."""


class Jvm:
    """The JVM of an application's driver.

    Raises:
        NoJvmError: The session is one of Spark Connect, or PySpark has changed.
    """

    def __init__(self, spark: SparkSession) -> None:
        try:
            self.context: SparkContext = spark.sparkContext
        except Exception as error:
            raise NoJvmError(
                "a session of Spark Connect cannot be checked: run the check on the cluster itself, by spark-submit"
            ) from error
        if not (hasattr(self.context, "_jvm") and hasattr(self.context, "_jsc")):
            raise NoJvmError("this version of PySpark does not let its JVM be asked")
        self._jvm: Any = self.context._jvm
        self._java: Any = self.context._jsc

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the JVM, which are not always those of this process."""
        return {str(name): str(value) for name, value in dict(self._jvm.System.getenv()).items()}

    def working_directory(self) -> Path:
        return Path(str(self._jvm.System.getProperty("user.dir")))

    def executors(self) -> int:
        """Return the number of executors that have registered, without the driver."""
        # The driver has an entry, too.
        return int(self._java.sc().getExecutorMemoryStatus().size()) - 1

    def pipe(self, lines: Sequence[str], words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Run a program on the executors, once for each of `lines`, which it reads; return the lines that it prints."""
        inputs, command, variables = (
            self._jvm.java.util.ArrayList(),
            self._jvm.java.util.ArrayList(),
            self._jvm.java.util.HashMap(),
        )
        for line in lines:
            inputs.add(line)
        for word in words:
            command.add(word)
        for name, value in environment.items():
            variables.put(name, value)
        return [str(line) for line in self._java.parallelize(inputs, len(lines)).pipe(command, variables).collect()]
