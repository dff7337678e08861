"""The options of a source that reads one topic, and the sizes of its batches."""

from __future__ import annotations

from typing import Any

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import iter_headers
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.topics import Topics


def options_for(topics: Topics, topic: str, **options: Any) -> SourceOptions:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic}
    return SourceOptions.parse(given | {name: str(value) for name, value in options.items()})


def spans(bootstrap: str, tp: TopicPartition) -> list[tuple[int, int, int]]:
    """Base offset, next offset and bytes of every batch, as they are fetched."""
    with Cluster(ClientConfig.from_dict({"bootstrap.servers": bootstrap})) as cluster:
        found, offset = list[tuple[int, int, int]](), 0
        with PartitionFetcher(cluster, tp, max_wait=0) as fetcher:
            while len((chunk := fetcher.fetch(offset)).records):
                headers = [header for _, header in iter_headers(chunk.records)]
                found += [(header.base_offset, header.next_offset, header.size) for header in headers]
                offset = chunk.next_offset(offset)
        return found
