"""Transactions (KIP-98, KIP-360, KIP-447, KIP-664, and the verification of KIP-890).

- `records`                 the records of `__transaction_state`, in Kafka's bytes
- `machine`                 one transactional id: its states and transitions, and refused requests (pure)
- `partition_transactions`  the transactional ids of one partition of `__transaction_state` (pure)
- `marker_router`           carries markers to the leaders of the partitions, here or on other brokers
- `verification`            asks a coordinator on another broker whether a transaction covers partitions
- `markers`                 control batches that end a transaction in the partitions it wrote to
- `completion`              writes the markers of a decided transaction, and stores that they are written
- `waiting`                 decisions that wait until they are replicated, and what the broker's log says of them
- `coordinator`             loads partitions, stores their changes, aborts transactions that time out
- `expiry`                  removes transactional ids that were not used for long
- `admission`               checks that a transaction covers a transactional append
- `service`                 coordinator, markers and checks, put together
- `settings`                the coordinator's settings, as values
"""
