"""Programs that benchmarks start in a Spark of its own, each named after its benchmark.

- `cold_executors`  the first task where nothing ran before
- `load`            loads of a topic, one after another
- `spark_read`      reading queries; `spark_write` writing ones; `spark_latency` streaming ones
"""
