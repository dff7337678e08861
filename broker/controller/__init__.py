"""Decisions about the cluster, and their way into the registry.

Pure decisions, states and events in, operations out:

- ``planning``       what topics become when they are created or grow
- ``assignment``     which brokers hold which partitions
- ``adoption``       registering the logs that are found in a directory without a registry
- ``leadership``     leader epochs
- ``requests``       what each broker has to be told of a decision
- ``elections``      elections that administrators ask for
- ``reassignments``  reassignments to other brokers

Services that commit them and see that they are carried out:

- ``topics``         creating, deleting and growing topics
- ``configs``        altering and describing configurations
- ``quotas``         altering and describing client quotas
- ``producer_ids``   blocks of producer ids
- ``loggers``        levels of the broker's loggers
"""
