"""The broker: topics, partitions and offsets, served over Kafka's wire protocol.

Each room imports those below it only (the contract stands in pyproject.toml). From the top:

- ``cli/``            the broker's commands of ``kafkalog``
- ``main``            a broker as a process: logging, signals, exit codes
- ``server``          a broker's life: what is started and stopped in which order
- ``assembly``        which part is made of which
- ``metrics/``        what a broker counts, in Prometheus' form
- ``api/``            one handler module for each family of APIs
- ``coordinator/``    groups and transactions, over logs of their own
- ``controller/``     decisions about the cluster: pure functions, and the services that commit them
- ``replica/``        partitions as replicas: roles, high watermark, operations that wait
- ``runtime``         what a broker takes from the world: loop, workers, clock, network, files, chance
- ``net/``            listeners, connections, links to other brokers
- ``metadata/``       the registry: model, operations, stores, and the cache that is read
- ``config/``         every key, declared once
- ``log/``            one partition's log and all that keeps it
- ``quota/``          what clients may use of a broker
- ``counters``        what is counted as requests are served
- ``workers``         threads for what would block the event loop
- ``page_cache``      whether bytes of a file are in memory, and reading them in
- ``compiler_pages``  memory of the compiler, given back once the kernels are there
"""
