"""Messages as Apache Kafka's classes write them."""
