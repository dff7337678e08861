"""Partitions that one Produce request names more than once."""

from __future__ import annotations

from broker.api.large import release_entries
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def drop_repeated(message: ProduceRequest) -> None:
    """Keep the last entry of each partition, as Apache Kafka does; a topic that is named twice becomes one entry.

    No client sends such a request by design. If both entries were appended, the records of one would not be answered.
    There may be hundreds of thousands, which are freed a few at a time.
    """
    topics = message.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) <= 1:
        return
    by_name: dict[str, TopicProduceData] = {}
    for topic in topics:
        first = by_name.setdefault(topic.name, topic)
        if first is not topic:
            first.partition_data.extend(topic.partition_data)
    if len(by_name) < len(topics):
        message.topic_data = list(by_name.values())
        release_entries(topics)
    for topic in by_name.values():
        last: dict[int, PartitionProduceData] = {data.index: data for data in topic.partition_data}
        if len(last) < len(entries := topic.partition_data):
            topic.partition_data = list(last.values())
            release_entries(entries)
