"""A producer: asynchronous, batching, idempotent.

- `producer`     what users call
- `config`       Kafka's producer properties
- `partitioner`  which partition a record goes to
- `accumulator`  records waiting, a queue a partition; `batch` what travels together, and futures; `encoding` to bytes;
                 `encoded` batches that a caller encoded
- `sender`       the thread that sends; `links` its connections, `topics` what it knows of topics
"""

from kafkalog.client.producer.accumulator import ProducerClosedError
from kafkalog.client.producer.batch import BatchFuture, DeliveryFuture, RecordMetadata
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.encoded import EncodedFuture
from kafkalog.client.producer.producer import Producer, TopicLayout

__all__ = [
    "BatchFuture",
    "DeliveryFuture",
    "EncodedFuture",
    "Producer",
    "ProducerClosedError",
    "ProducerConfig",
    "RecordMetadata",
    "TopicLayout",
]
