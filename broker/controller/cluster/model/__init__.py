"""The state of the controller as values, and the form of its decisions. Pure.

- `context`      what the controller knows of the cluster
- `assignments`  how the assignment of a partition changes with a reassignment
- `leaders`      which replica becomes the leader of a partition
- `effects`      what decisions ask of the world outside
- `states`       reads and changes the nodes of partitions' states
- `topic_nodes`  reads and changes the nodes of topics
- `requests`     the requests that tell brokers what was decided
- `history`      why partitions changed
- `gauges`       numbers for metrics
"""
