"""The commands that send and receive records.

- `produce`     `kafkalog produce`
- `consume`     `kafkalog consume`; `sources` reads its records, and `connector_source` those of groups in ZooKeeper
- `formatters`  the classes of `--formatter`
- `perf`        `kafkalog perf`
"""
