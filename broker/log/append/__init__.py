"""Appending record batches to a log.

- `log_appender`  appends of the leader and of a follower
- `append_info`   the result of an append
- `validation`    what a leader checks and sets in a produced batch (v2)
- `fetched`       what a follower checks in batches that it has fetched
- `mirrored`      what a leader checks in batches that keep the offsets of their source
- `record_errors` which of Kafka's errors stands for an error of `kafkalog.records`
- `rejection`     which records of a refused batch are at fault (KIP-467)
- `legacy/`       validation and appends where message format v0 or v1 is sent or stored
"""
