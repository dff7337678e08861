"""Decisions about the cluster, and the services that commit them to the metadata store.

- `decisions`      pure functions, which turn states and events into operations and requests

Services that commit decisions and carry them out:

- `topics`         creates and deletes topics, and adds partitions
- `configs`        alters and describes configurations
- `quotas`         alters and describes client quotas
- `channel`        sends brokers the requests that follow from a decision
- `publisher`      puts committed configurations and quotas in force, whichever broker committed them
- `producer_ids`   allocates producer ids
- `loggers`        alters and describes the levels of the broker's loggers
"""
