"""The log of a partition, all the logs of a broker, and the tools that work on their files.

One log:

- `log`                 `Log`: the log of one partition, made of the parts that follow
- `log_parts`           which part is made of which others
- `log_config`          the topic settings that a log obeys
- `log_offsets`         log start offset, log end offset, high watermark, last stable offset
- `segment/`            `.log` files: segments, their list, and the slices that readers get
- `index/`              the offset, time and transaction indexes of a segment
- `append/`             validation and appends of a leader and of a follower; message formats v0 and v1
- `read/`               reads by offset, timestamp and leader epoch; reading ahead of consumers
- `producer_state/`     idempotent and transactional producers, their snapshots, transaction markers
- `leader_epoch_cache`  which leader epoch began at which offset
- `roller`              when the active segment is closed and the next one begun
- `flusher`             the recovery point, and forcing the log to the device
- `truncation`          removing records from the end of the log
- `truncation_plan`     reading what a truncation needs to know, before it changes anything
- `retention/`          removing records from its beginning, and segments that compaction has replaced
- `storage_errors`      what a log does about errors of its disk

All the logs of a broker:

- `log_manager`         `LogManager`: every log, over all log directories
- `resources`           what the logs of one broker share
- `directories/`        log directories: locks, identity, checkpoints, directories of partitions
- `recovery/`           opening the logs at the start, and repairing them after a crash
- `cleaner/`            log compaction
- `alter_dirs/`         moving a log to another log directory (KIP-113)
- `files/`              the file-system calls that can lose data; the budget of file descriptors; flush statistics
- `tools/`              `kafkalog log`: dump, verify, repair and count the files of a stopped broker
- `kafka_0_7`           partition directories of Kafka 0.7, for `kafkalog log`
"""
