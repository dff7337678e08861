"""Drills with the processes of a cluster: three brokers over ZooKeeper, a producer, and a judge of what is left.

- `drilled`   the cluster: processes that are killed, paused, cut off and started again
- `load`      the producer and the consumer that run meanwhile
- `writers`   its idempotent producers: librdkafka's and ours
- `verdict`   records that are lost, doubled or out of order
"""
