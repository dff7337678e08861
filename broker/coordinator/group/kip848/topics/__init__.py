"""The cluster's topics, as groups of the consumer protocol see them.

- `cluster_topics`  topics with their partitions and racks; matches regular expressions on a worker
- `topic_regex`     regular expressions over topic names
- `turns`           a lock that groups get in turn, so that one with many expressions does not keep the others waiting
"""
