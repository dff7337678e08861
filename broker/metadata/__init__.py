"""The cluster's registry: one model, one interface, and a store for each way of keeping it.

- ``model``       what is registered: brokers, controller, topics, partitions, configurations, quotas, producer ids
- ``operations``  typed changes that turn one state into the next; pure
- ``text``        the form in which a state is stored
- ``store``       the interface of a registry: commits and listeners
- ``local``       the store of a lone broker: an atomic file in each of its log directories
- ``cache``       the read side: what this broker answers to clients about the cluster
"""
