"""Tests of the Spark source and sink. Those of a part are in its folder; those of all of it:

- `queries/`      batches, streams and tables in Spark
- `without_jvm/`  the source as Spark drives it, without Spark
- `kills/`        drivers, workers and brokers that are killed while Spark works
- `secured/`      secured clusters, and the secrets among a query's options
- `pages/`        pages of docs/ and notebooks
"""
