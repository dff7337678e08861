"""The broker's metrics, under the names of Kafka's metrics, and their export to Prometheus.

- `catalog`   every metric: its name, kind, labels, meaning, and the function that reads its value
- `endpoint`  the HTTP server for Prometheus, on its own threads
- `document`  prints the reference page docs/reference/metrics.md
"""
