"""The large requests of `benchmarks.stalls`.

- `cases`   about topics, records, configurations and transactions
- `groups`  about groups and their offsets
"""
