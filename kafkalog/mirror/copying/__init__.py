"""Copy records from the source to the target.

- `worker`          one process's part: it fetches, sends and commits the partitions that the group assigns to it
- `task`            a transactional producer and the partitions that it writes
- `created_again`   tells topics from deleted ones of the same names
- `lost_records`    finds partitions that end before the position in them
- `size_limits`     finds out how large joined batches may be
- `source_consumer` makes the consumer that reads the source
- `progress`        how far a worker is, for metrics and checkpoints

Pure:

- `assignor`        divides the tasks among the processes
- `batches`         makes batches to send of fetched bytes
- `joining`         joins small batches
- `limiter`         limits the bytes a second
- `pace`            tells when tasks commit
- `recalled`        makes the map of offsets that earlier processes have stored
- `translation`     maps offsets of the source to offsets of the target
"""
