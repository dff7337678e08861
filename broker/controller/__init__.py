"""Decisions about the cluster: topics, partitions, assignments, configurations (and later leaders and ISRs).

- ``assignment``  which brokers hold which partitions; pure
- ``topics``      creating, deleting and growing topics
- ``configs``     altering and describing configurations
- ``producer_ids``  blocks of producer ids
"""
