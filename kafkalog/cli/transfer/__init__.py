"""The commands that send and receive records.

- `produce`  `kafkalog produce`
- `consume`  `kafkalog consume`; `sources` reads its records
- `perf`     `kafkalog perf`
"""
