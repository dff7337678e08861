"""Fetch.

- `fetch`             the handler: the session, the wait for `fetch.min.bytes`, the answer
- `fetch_reading`     reads the partitions of a request
- `fetch_waiting`     what the partitions of a fetch have brought while it waits
- `fetch_in_turns`    requests of many partitions
- `fetch_partition`   one partition of a fetch, and what its client was told
- `fetch_session`     incremental fetch sessions (KIP-227)
- `fetch_rest`        the partitions of a session in which nothing has changed
- `fetch_conversion`  batches for clients that know older formats only
"""
