"""Directories that Spark's file sink writes, and the checkpoints that belong to them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafkalog.compat import file_sink
from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.jobs.arguments import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


def check_written(spark: SparkSession, option: str, directory: str, checkpoint: str) -> None:
    """Refuse a directory that a query with another checkpoint has written.

    The file sink skips a micro-batch whose number it has written before. A new checkpoint counts from 0 again, so its
    first rows would be missing without any error.

    Raises:
        UsageError: Another checkpoint belongs to `directory`.
    """
    if not is_tested():
        logger.warning(
            "It is not checked whether %s %s was written with another checkpoint, because this was not tested with the "
            "installed version of PySpark. If it was, Spark leaves out the first rows", option, directory,
        )  # fmt: skip
        return
    if file_sink.has_written(spark, directory) and file_sink.has_begun(spark, checkpoint) is False:
        raise UsageError(
            f"{option} {directory} was written with another checkpoint: Spark would leave out the first rows. Take "
            "that checkpoint, or another directory"
        )
