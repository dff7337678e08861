"""The commands that need Spark."""

from __future__ import annotations

from kafkalog.cli.command import Command

COMMANDS = (
    Command("load", "load topics into Parquet on HDFS, exactly once", "spark_kafkalog.cli.load", 80),
    Command("spark", "check and prepare the Python environments of Spark", "spark_kafkalog.cli.spark", 100),
    Command(
        "quickstart",
        "broker, topic, real input and Spark into Parquet, on this machine",
        "spark_kafkalog.cli.quickstart",
        120,
    ),
)
