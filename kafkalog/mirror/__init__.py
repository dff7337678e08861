"""Mirror topics of one cluster in another one: the place of Apache Kafka's MirrorMaker.

- `settings`              the mirror's properties, under the names of MirrorMaker 2
- `transaction_timeout`   how long its transactions may be open; pure
- `clients`               makes the clients of both clusters
- `supervisor`            runs workers, one after another, until the mirror is stopped
- `copying`               copies records: workers, their tasks, and how far they are
- `keeping`               copies records so that they keep their offsets
- `claims`                decides which of two mirrors in opposite directions a topic belongs to
- `housekeeping`          jobs beside the copying: checkpoints of consumer groups, heartbeats
- `rechecks`              when what is left out for a time is looked at again; pure
- `log_ends`              where partitions end, as far as their leaders answer
- `topics`                which topics are mirrored and what they are called; makes the target's follow the source's
- `internal_topics`       the topics in which a mirror stores its positions, offset syncs and checkpoints
- `metrics`               serves to Prometheus what a process knows
- `status`                asks both clusters how far a mirror is
- `legacy`                mirrors as MirrorMaker 1 did
- `actions`               the command `kafkalog mirror`
"""
