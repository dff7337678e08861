"""Clusters that Spark's applications use.

- `hdfs`           a NameNode and a DataNode
- `yarn`           a ResourceManager and NodeManagers
- `hadoop`         what these two share
- `spark_cluster`  Spark's own master and its workers
"""
