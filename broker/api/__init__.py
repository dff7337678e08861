"""Requests: decode, call the domain, encode. One module per family of APIs.

- ``registry``       which APIs and versions are served, and by whom
- ``dispatcher``     a frame becomes a request becomes a handler's call; errors become responses or closed connections
- ``context``        what handlers are given: the broker's parts, and the request they answer
- ``errors``         errors become Kafka's error codes
- ``large``          what keeps large requests from holding up everybody else
- ``loop_time``      how long requests keep the event loop busy, for quotas
- ``versions``       ApiVersions
- ``produce``        Produce; message sets of older formats: ``produce_legacy``; records at fault: ``rejected_batches``
- ``fetch``          Fetch: what it reads (``fetch_reading``), of many partitions (``fetch_in_turns``), sessions
  (``fetch_session``), conversions (``fetch_conversion``)
- ``offsets``        ListOffsets, OffsetForLeaderEpoch, DeleteRecords
- ``metadata``       Metadata, DescribeCluster, DescribeTopicPartitions
- ``topics``         CreateTopics, DeleteTopics, CreatePartitions
- ``configs``        DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
- ``log_dirs``       DescribeLogDirs, AlterReplicaLogDirs
- ``producer_ids``   InitProducerId
- ``coordinators``   FindCoordinator
- ``groups``         JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups
- ``group_offsets``  OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit
- ``consumer_groups``  ConsumerGroupHeartbeat, ConsumerGroupDescribe
- ``transactions``   AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers
- ``transaction_admin``  DescribeProducers, DescribeTransactions, ListTransactions
- ``acls``           DescribeAcls, CreateAcls, DeleteAcls
- ``replica_admin``  ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
- ``client_quotas``  DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials
"""
