"""PySpark's daemon, which imports what kafkalog's tasks need before it forks the first Python worker.

    spark.python.daemon.module=spark_kafkalog.daemon

Spark runs it on executors instead of `pyspark.daemon`, with the same arguments. Each worker begins with PySpark, numpy,
pyarrow and kafkalog imported, and with the compiled kernels loaded. The executors' Python must have kafkalog installed.
"""

from __future__ import annotations

import runpy

from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.compat.workers.starting import DAEMON, TASK_IMPORTS
from spark_kafkalog.starting import ahead


def main() -> None:
    """Import, and run PySpark's daemon in this process. With an untested PySpark, nothing is imported ahead."""
    if is_tested():
        ahead.import_all((*TASK_IMPORTS, *ahead.TASKS))
        ahead.load_kernels()
        ahead.settle()
        ahead.reseed_children()
    runpy.run_module(DAEMON, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
