"""One module for each API: its request, its response, and what their fields mean (versions of Apache Kafka 3.9)."""
