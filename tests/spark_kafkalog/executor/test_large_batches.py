"""Test that a batch which expands too far ends a task, with the name of the option that bounds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from spark_kafkalog.executor.batch_pieces import BatchTooLargeError
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.load.scripted import broker_of_topic
from tests.support.command import call
from tests.support.scripted import Handler

RECORDS = [Record(n, 1_700_000_000_000, None, bytes(1000)) for n in range(9)]
BATCHES = {
    "v2": bytes(encode_batch(RECORDS, codec=Codec.ZSTD)),
    "v1": bytes(encode_message_set(RECORDS, magic=1, codec=Codec.GZIP)),
}


def answer(records: bytes) -> Handler:
    def fetched(request: FetchRequest) -> FetchResponse:
        data = PartitionData(partition_index=0, high_watermark=9, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    return fetched


@pytest.mark.parametrize("form", BATCHES)
def test_the_task_fails_and_names_the_option(form: str) -> None:
    with broker_of_topic(answer(BATCHES[form])) as broker:

        def read(most: str) -> int:
            given = {"kafka.bootstrap.servers": broker.address, "subscribe": "t", "maxBatchBytes": most}
            batches = read_range(TopicPartition("t", 0), 0, 9, SourceOptions.parse(given), ("offset",))
            return sum(each.num_rows for each in batches)

        with pytest.raises(
            BatchTooLargeError, match=r"t-0 at offset 0 or later: .*more than 4096 bytes.*maxBatchBytes"
        ):
            read("4k")
        assert read("1m") == 9


def test_a_load_names_its_own_option(tmp_path: Path) -> None:
    with broker_of_topic(answer(BATCHES["v2"])) as broker:
        given = ["--bootstrap-server", broker.address, "--topic", "t", "--to", str(tmp_path), "--without-spark"]
        done = call("load", *given, "--min-splits", "1", "--max-batch-bytes", "4k", check=1)
        assert "The bound is --max-batch-bytes: set it higher" in done.err
        call("load", *given, "--min-splits", "1")
