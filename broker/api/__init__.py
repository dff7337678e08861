"""Requests: decode, call the domain, encode. One module per family of APIs.

- ``registry``       which APIs and versions are served, and by whom
- ``dispatcher``     a frame becomes a request becomes a handler's call; errors become responses or closed connections
- ``versions``       ApiVersions
- ``produce``        Produce
- ``fetch``          Fetch, with sessions (``fetch_session``)
- ``offsets``        ListOffsets, OffsetForLeaderEpoch, DeleteRecords
- ``metadata``       Metadata, DescribeCluster, DescribeTopicPartitions
- ``topics``         CreateTopics, DeleteTopics, CreatePartitions
- ``configs``        DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
- ``log_dirs``       DescribeLogDirs
- ``producer_ids``   InitProducerId
- ``coordinators``   FindCoordinator
- ``groups``         JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups
- ``group_offsets``  OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit
- ``consumer_groups``  ConsumerGroupHeartbeat, ConsumerGroupDescribe
- ``transactions``   AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers
- ``transaction_admin``  DescribeProducers, DescribeTransactions, ListTransactions
- ``acls``           DescribeAcls, CreateAcls, DeleteAcls
"""
