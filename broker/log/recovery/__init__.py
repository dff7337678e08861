"""Opening logs after a stop or a crash.

- `loading`           opens the logs of all log directories when the broker starts
- `log_opening`       opens one log: makes its directory or recovers it, and compares its topic id
- `log_recovery`      decides what of a directory is believed, checked and repaired
- `directory_scan`    lists a partition's files and removes what a crash has left over
- `segment_recovery`  checks one segment batch by batch and rebuilds its indexes
- `transaction_rebuild`  rebuilds a segment's transaction index, step by step
- `producer_replay`   rebuilds the producer state from the log
- `producer_recall`   looks up the batches that a producer snapshot lacks
"""
