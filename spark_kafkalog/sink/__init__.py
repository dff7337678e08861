"""Spark writes to topics: ``df.write.format("kafkalog")`` and ``df.writeStream.format("kafkalog")``, without a jar.

- `options`    what a user may set, under the names of Spark's Kafka sink
- `schema`     the columns that rows may have
- `task`       rows of one task to record batches (by the producer's `rows` and `spread`), and these to the brokers
- `writer`     what Spark calls for a batch query; `stream` for a streaming one; `message` what tasks report

Delivery is at least once: a producer of its own for every task attempt, idempotent, so that repeated requests append
nothing twice; an attempt that Spark repeats writes its rows again. A transactional mode would begin where a task gets
its producer (`task.write_rows`) and end in the writer's ``commit`` and ``abort``, which have every task's message.
"""
