"""What a broker counts, and how Prometheus gets it. Names are those of Kafka's metrics.

- ``catalog``   every metric: its name, kind, labels, meaning, and where its value is read
- ``endpoint``  the HTTP server that answers scrapes, on threads of its own
- ``document``  docs/metrics.md, from the catalog
"""
