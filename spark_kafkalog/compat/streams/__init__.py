"""Private parts of streaming queries: their sources, their micro-batches, their output.

- `prefetched`   rows that the planner of a stream sends with its plan; off in untested versions
- `micro_batch`  the micro-batch that a task belongs to; an error if Spark does not name it
- `queries`      whether a query has created its sources
- `file_sink`    traces of earlier queries in a directory of Spark's file sink
"""
