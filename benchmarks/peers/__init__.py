"""The parts that the benchmarks share: brokers under one interface, what they use, and tables.

- `brokers`     kafkalog and Apache Kafka brokers; `clusters` three of them
- `spark`       a Spark in a process of its own; `spark_jobs` the other end of it
- `processes`   their CPU time and memory
- `big_log`     a log of many gigabytes, made once
- `ceiling`     a source with nothing behind it: the most that PySpark lets one in Python reach
- `raw_fetch`   a consumer that does nothing with what it gets
- `report`      medians, ratios and tables; `plot` rates and lines drawn
"""
