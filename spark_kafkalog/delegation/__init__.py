"""Delegation tokens for queries, by Spark's settings `spark.kafka.clusters.<alias>.…`.

Spark's own connector has a token made for each of these clusters, by a login that only the driver has, and its
consumers and producers log in with the token. Here the planner of a query does so, for Spark's tokens are kept in the
JVM. The token goes to the executors with their tasks, so that nothing shows it.

- `application`  the settings of the Spark application that a process belongs to
- `clusters`     what the settings say about a cluster, and which cluster a query's servers are of
- `ended`        errors of tasks whose token has ended
- `tokens`       tokens: made when they are needed, kept, and replaced before they end
"""
