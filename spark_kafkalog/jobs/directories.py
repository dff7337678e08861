"""Directories that Spark's file sink writes, and the checkpoints that belong to them."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from spark_kafkalog.compat.gateway import hadoop_files
from spark_kafkalog.compat.streams import file_sink
from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.jobs.arguments import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ID = "kafkalog-id"
"""A file in a query's checkpoint: a random id, and after a space the directory for which the id was made.

The directory tells a claim that was interrupted from one of another directory. Earlier versions wrote only the id.
"""
_ID_BESIDE = "_kafkalog_checkpoint"
"""A file with the same id in the directory that the query writes. Readers of Parquet leave out such a name."""
logger = logging.getLogger(__name__)


def check_written(spark: SparkSession, option: str, directory: str, checkpoint: str) -> None:
    """Refuse a directory that a query with another checkpoint has written, or with a later state of this one.

    The file sink skips a micro-batch whose number it has written before. A new checkpoint counts from 0 again, and one
    from a backup from where it was, so rows would be missing without any error. A checkpoint whose number is higher is
    told by its id: it has one in a file of its own, and the directory that it belongs to has the same.

    Raises:
        UsageError: Another checkpoint belongs to `directory`.
    """
    if not is_tested():
        logger.warning(
            "It is not checked whether %s %s was written with another checkpoint, because this was not tested with the "
            "installed version of PySpark. If it was, Spark leaves out rows", option, directory,
        )  # fmt: skip
        return
    written, planned = file_sink.last_written(spark, directory), file_sink.last_planned(spark, checkpoint)
    if written is None or planned is None:
        return
    own, others = f"{checkpoint}/{_ID}", f"{directory}/{_ID_BESIDE}"
    mine, _, made_for = (hadoop_files.read_text(spark, own) or "").partition(" ")
    theirs = hadoop_files.read_text(spark, others) or ""
    may_claim = not theirs and (not mine or made_for == directory)
    if written >= 0 and (planned < 0 or (theirs != mine and not may_claim)):
        raise UsageError(
            f"{option} {directory} was written with another checkpoint: Spark would leave out rows. Take that "
            "checkpoint, or another directory"
        )
    if written > planned:
        raise UsageError(
            f"{option} {directory} has micro-batches up to {written}, but the checkpoint only up to {planned}: it is "
            "another one, or an older copy, and Spark would leave out rows. Take another directory"
        )
    if not mine:
        mine = secrets.token_hex(8)
        hadoop_files.write_text(spark, own, f"{mine} {directory}")
    if theirs != mine:
        hadoop_files.write_text(spark, others, mine)
