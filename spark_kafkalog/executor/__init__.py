"""Code that runs on executors: the tasks of a query.

- `tasks`          the tasks themselves, made by the driver, and how an executor reads one
- `range_reader`   one range of offsets, fetched and decoded into Arrow record batches
- `stopping`       ends tasks that run in threads of this process
- `batch_pieces`   fetched bytes, cut at the bounds of record batches
- `jvm_socket`     the connection to the JVM, on which nothing waits
- `python_worker`  settings of the Python process that tasks run in
- `allocator`      a setting of the C library that keeps freed memory
"""
