"""Fetching ahead of the application, in a thread of its own.

- `fetcher`              the thread: one request in flight to each leader
- `asked_partition`      a partition in a request; `fetch_sessions` what a request has to name of them (KIP-227)
- `leader_connections`   its connections; `metadata_watcher` the metadata of topics of interest; `offset_lookup` offsets
                         of timestamps
- `fetch_position`       a position, and its validation after a change of leaders (KIP-320)
- `lost_positions`       what is done about positions that the log does not have, or cannot read
- `completed_fetch`      what one fetch returned of one partition; `fetch_collector` hands it to the application
"""
