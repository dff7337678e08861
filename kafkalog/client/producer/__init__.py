"""A producer: asynchronous, batching, idempotent.

- `producer`     what users call
- `config`       Kafka's producer properties
- `partitioner`  which partition a record goes to; `serializers` what makes bytes; `interceptors` who looks on; `hooks`
                 what of these is configured; `record` a record before it is bytes
- `accumulator`  records waiting, a queue a partition; `batch` what travels together, and futures; `encoding` to bytes;
                 `encoded` batches that a caller encoded
- `rows`         Arrow columns in chunks, `spread` over partitions; `arrow` tables to batches
- `transactions` what may be done in a transaction; `transactional` the calls that do it; `enlistment` what
                 the sender does for them
- `sender`       the thread that sends; `links` its connections, `topics` what it knows of topics
- `metrics`      counters of the sender's thread
- `plugins`      classes that a configuration names
"""

from kafkalog.client.producer.accumulator import ProducerClosedError
from kafkalog.client.producer.batch import BatchFuture, DeliveryFuture, RecordMetadata
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.encoded import EncodedFuture
from kafkalog.client.producer.partitioner import TopicLayout
from kafkalog.client.producer.producer import Producer
from kafkalog.client.producer.record import ProducerRecord
from kafkalog.client.producer.serializers import SerializationError, Serializer
from kafkalog.client.producer.transactional import OpenTransaction
from kafkalog.client.producer.transactions import TransactionAbortedError, TransactionStateError

__all__ = [
    "BatchFuture",
    "DeliveryFuture",
    "EncodedFuture",
    "OpenTransaction",
    "Producer",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerRecord",
    "RecordMetadata",
    "SerializationError",
    "Serializer",
    "TopicLayout",
    "TransactionAbortedError",
    "TransactionStateError",
]
