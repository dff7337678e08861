"""The producer's thread, which sends batches to the partitions' leaders.

- `sender`               the thread: takes batches from the accumulator, sends them, handles responses and failures
- `channels`             a connection to a leader, with the requests in flight on it
- `sequences`            producer id, epochs and sequence numbers (idempotence)
- `topic_metadata`       the partitions of topics, their queues and leaders
- `transaction_registration` adds partitions to a transaction before their batches are sent
- `metrics`              counters under Kafka's names
"""
