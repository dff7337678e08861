"""The controller's decisions: pure functions from states and events to operations and requests.

- `planning`       new topics and new partitions: checks, and placement on brokers
- `assignment`     assigns replicas to brokers
- `adoption`       registers the topics of log directories that have logs but no registry
- `leadership`     raises leader epochs
- `requests`       the LeaderAndIsr and StopReplica requests that follow from a decision
- `elections`      leader elections requested by administrators
- `reassignments`  partition reassignments requested by administrators
"""
