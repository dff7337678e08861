"""Partitions as replicas: leadership, in-sync replicas, high watermark, and operations that wait for them.

- `manager`          hosts the broker's partitions; appends and fetches over many of them
- `partition`        one partition on this broker: its log and its role
- `roles`            the state and the decisions of a leader and of a follower
- `isr/`             in-sync replicas: who is one, and how changes of the ISR are proposed
- `divergence`       where the logs of a leader and of a follower diverge, by the ends of leader epochs; pure
- `fetching/`        followers: fetching what other brokers lead
- `hosting/`         which partitions are here: by a controller's requests, in which log directory
- `acknowledging/`   when an append may be acknowledged: replicated, and flushed where that is asked for
- `purgatory`        operations that wait for a condition on partitions, or for a deadline
- `follower_calls`   calls of followers that wait for other partitions, when this broker begins to lead one
- `resting`          partitions that fetch sessions leave out, because nothing has changed
- `isolation`        how far a fetch may read
- `nearby`           which replica a consumer should read from
- `config_faults`    topics' stored configurations as far as they can be read; the rest is in the broker's log
- `throttles`        how fast replicas may be moved, by the throttles of topics and brokers
"""
