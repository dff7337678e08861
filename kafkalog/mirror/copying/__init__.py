"""Copy records from the source to the target.

- `worker`          one process's part: it fetches, sends and commits the partitions that the group assigns to it
- `source_consumer` makes the consumer that reads the source
- `task`            a transactional producer and the partitions that it writes
- `sending`         gives a partition's batches to its task, up to one that the target refuses
- `batching`        makes batches to send of fetched bytes
- `left_out`        the assigned partitions that are not mirrored at present
- `rechecker`       looks at these again, in a thread of its own
- `held`            holds partitions at batches, and tells when these are tried again
- `damaged`         holds partitions at batches that cannot be read
- `refused_batches` holds partitions at batches that the target refuses
- `positions`       positions in the source, and the offsets of the target that belong to them
- `progress`        how far a worker is, for metrics and checkpoints

Pure:

- `assignor`        divides the tasks among the processes
- `pace`            tells when tasks commit
"""
