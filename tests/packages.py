"""The packages whose docstrings and comments are checked."""

from __future__ import annotations

PACKAGES = (
    "broker",
    "kafkalog",
    "spark_kafkalog",
    "pyspark_kafkalog",
    "benchmarks",
    "conformance",
    "peers",
    "tests",
    "tools",
)
