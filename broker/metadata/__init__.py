"""The cluster's registry: one model, one interface, a store for each way of keeping it (DESIGN D6).

- ``model``   what is registered: topics, partitions, configurations, producer-id blocks
- ``store``   the interface
- ``local``   one broker: an atomic file in one of its log directories
"""
