"""Mirror topics of one cluster in another one: the place of Apache Kafka's MirrorMaker.

- `supervisor`   runs workers, one after another, until it is told to stop
- `worker`       one process's part: what the group gives it is fetched, sent and committed
- `task`         a transactional producer and the partitions that it writes; `assignor` divides tasks among processes
- `topics`       topics, partitions and configurations of the target follow the source
- `housekeeping` what is done now and then, beside the records: `checkpoints` of groups, `heartbeats`, configurations
- `progress`     how far a worker is, and its `metrics`; `status` asks both clusters how far a mirror is
- `actions`      the command `kafkalog mirror`
- `legacy`       mirrors as MirrorMaker 1 did

Decisions, which take values and return values:

- `settings`     the mirror's properties, under the names of MirrorMaker 2
- `naming`       names of topics on both sides, and cycles; `selection` what is mirrored at all
- `batches`      from fetched bytes to batches to send
- `formats`      the records that a mirror writes about itself; `compacted` reads them back
- `translation`  from offsets of the source to offsets of the target
- `limiter`      so many bytes a second
"""
