"""Applications for spark-submit.

- `access_log`   web access logs as SQL expressions
- `application`  a streaming job as a process
- `arguments`    options that the jobs share
- `check`        `kafkalog spark check` on a cluster
- `directories`  directories of Spark's file sink
- `enrich`       from a topic to a topic, enriched
- `json_lines`   JSON objects as SQL expressions
- `load`         `kafkalog load` on a cluster
- `lookup`       a small table to enrich records from
- `page_views`   hourly page views of access logs
- `rejected`     records that cannot be parsed
- `start`        the start of a job, the same for its queries
"""
