"""Spark writes to topics: ``df.write.format("kafkalog")`` and ``df.writeStream.format("kafkalog")``, without a jar.

- `options`    what a user may set, under the names of Spark's Kafka sink
- `schema`     the columns that rows may have
- `task`       rows of one task to record batches (by the producer's ``arrow`` room), which it sends to the brokers
- `writer`     what Spark calls for a batch query; `stream` for a streaming one; `hand_over` what both do
- `message`    what tasks report
- `once`       the transactional mode

Delivery is at least once: a producer of its own for every task attempt, idempotent, so that repeated requests append
nothing twice; an attempt that Spark repeats writes its rows again. With ``kafka.transactional.id`` it is exactly once:
each attempt leaves a transaction open, which the driver ends (`once`).
"""
