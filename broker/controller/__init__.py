"""Decisions about the cluster, and the services that commit them to the metadata store.

Pure decisions, which turn states and events into operations:

- ``planning``       new topics and new partitions: checks, and placement on brokers
- ``assignment``     assigns replicas to brokers
- ``adoption``       registers the topics of log directories that have logs but no registry
- ``leadership``     raises leader epochs
- ``requests``       the LeaderAndIsr and StopReplica requests that follow from a decision
- ``elections``      leader elections requested by administrators
- ``reassignments``  partition reassignments requested by administrators

Services that commit decisions and carry them out:

- ``topics``         creates and deletes topics, and adds partitions
- ``configs``        alters and describes configurations
- ``quotas``         alters and describes client quotas
- ``channel``        sends brokers the requests that follow from a decision
- ``publisher``      puts committed configurations and quotas in force, whichever broker committed them
- ``producer_ids``   allocates producer ids
- ``loggers``        alters and describes the levels of the broker's loggers
"""
