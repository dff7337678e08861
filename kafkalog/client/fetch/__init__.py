"""Fetching from given partitions, without a consumer group and without threads.

- `fetch_request`        Fetch requests, and what a response holds of one partition
- `partition_fetcher`    record bytes of one partition; Spark's readers use it
- `decode`               from fetched bytes to records
- `simple_consumer`      records of assigned partitions
- `low_level_consumer`   one call, one fetch by offset and size, as Kafka's first consumers worked
"""
