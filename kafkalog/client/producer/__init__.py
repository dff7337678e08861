"""A producer: asynchronous, batching, idempotent.

- `producer`             what users call; `config` Kafka's producer properties; `record` a record before serialization,
                         and the checks of what it holds
- `serialization`        from keys and values to bytes; `partitioner` which partition a record goes to; `plugins` the
                         serializers, partitioners and interceptors that a user configures
- `accumulator`          records that wait to be sent: a queue for each partition, one bound on memory
- `partition_queue`      the queue of one partition, and its place in the sequence; `plan` what the sender must do now
- `batches`              records that travel together, and the futures of their senders
- `ownership`            refuses the use of a producer in a forked process
- `sender`               the thread that sends batches to the partitions' leaders
- `arrow`                Arrow tables to record batches
- `transactions`         the calls of a transaction, and which of them is allowed when
"""

from kafkalog.client.producer.accumulator import ProducerClosedError
from kafkalog.client.producer.batches.batch import BatchFuture, DeliveryFuture, RecordMetadata
from kafkalog.client.producer.batches.encoded_batch import EncodedFuture
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partitioner import TopicLayout
from kafkalog.client.producer.producer import Producer
from kafkalog.client.producer.record import ProducerRecord
from kafkalog.client.producer.serialization import SerializationError, Serializer
from kafkalog.client.producer.transactions.transaction_calls import OpenTransaction
from kafkalog.client.producer.transactions.transaction_manager import TransactionAbortedError, TransactionStateError

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
