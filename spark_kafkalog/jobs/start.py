"""The start of a job, at the same offsets for all of its queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.compat.gateway import hadoop_files
from spark_kafkalog.compat.streams import file_sink
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.options.limits import LATEST, AtEnd, AtOffsets, Limit
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.start_and_end import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def same_for_all(
    spark: SparkSession, source: Mapping[str, str], note: str, checkpoints: Sequence[str]
) -> dict[str, str]:
    """Return the source's options with offsets in place of `latest`, for all queries of a job.

    Otherwise each query would begin at the ends that it finds, and a record that comes in between would be read by one
    of them only. The offsets are stored in the file `note`, for a query that has not begun when the job is started
    again. If all have begun, the options have no effect any more. Partitions that are added before a query begins are
    read from their first records.

    Raises:
        OptionsError: An option is wrong, or the stored offsets are damaged.
        KafkaError, ClientError: Brokers do not say the offsets.
    """
    options = SourceOptions.parse(source)
    start = options.stream_start()
    planned = [file_sink.last_planned(spark, each) for each in checkpoints]
    begun = [each for each in planned if each is not None and each >= 0]
    if not _moves(start) or len(begun) == len(planned):
        return dict(source)
    with closing(Discovery(options)) as discovery:
        partitions, _ = discovery.assigned()
        stored = hadoop_files.read_text(spark, note) if begun else None
        if stored is None:
            found = resolve(start, partitions, discovery.lookup, starting=True)
        else:
            found = {tp: offset for tp, offset in _read(note, stored).items() if tp in partitions}
    text = json.dumps(offsets.to_json(found))
    if stored is None:
        hadoop_files.write_text(spark, note, text)
    return {**source, "startingOffsets": text, "startingOffsetsStrategy": "earliest"}


def _read(note: str, stored: str) -> dict[TopicPartition, int]:
    try:
        return offsets.from_json(json.loads(stored))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionsError(
            f"{note} has no offsets ({error}). Remove it: queries that have not begun start at the latest offsets then"
        ) from None


def _moves(start: Limit) -> bool:
    """Return whether a start means other offsets as soon as records are written."""
    if isinstance(start, AtOffsets):
        return LATEST in start.offsets.values()
    return start == AtEnd(LATEST)
