"""Requests: handlers call the domain and make the responses.

A module of handlers serves one family of APIs and lists them in `HANDLERS`. The machinery:

- `dispatcher`    decodes a frame and calls the handler; errors become responses or closed connections
- `registry`      the served APIs, their versions and modules
- `context`       arguments of handlers: the broker's parts, and the request to answer
- `authorization`  handlers ask the authorizer
- `errors`        errors become Kafka's error codes
- `current_leaders`  responses name the leaders of partitions that are not led here (KIP-951)
- `large`         large requests are served in turns, so that others need not wait
- `shared_metadata`  clients that ask for the metadata of many partitions at the same time share the answer
- `loop_time`     how long requests keep the event loop busy, for quotas

Handlers:

- `versions`      ApiVersions
- `authentication`  SaslHandshake and SaslAuthenticate where nothing is to be authenticated
- `metadata`      Metadata, DescribeCluster, DescribeTopicPartitions
- `offsets`       ListOffsets, OffsetForLeaderEpoch, DeleteRecords
- `produce`       Produce
- `fetch`         Fetch
- `groups`        FindCoordinator, groups of both protocols, committed offsets
- `transactions`  InitProducerId, transactions and their administration
- `cluster`       what brokers of a cluster ask of each other, and what clients learn of it
- `admin`         topics, configurations, log directories, replicas, quotas, SCRAM credentials, ACLs
"""
