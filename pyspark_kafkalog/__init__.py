"""Make `spark.read.format("kafkalog")` work without registration.

PySpark imports every top-level module named `pyspark_*` once, and registers its `DefaultSource`. Keep the imports
light: a failure here hides all Python sources.
"""

from spark_kafkalog.source import KafkalogDataSource as DefaultSource

__all__ = ["DefaultSource"]
