"""Records of `__consumer_offsets` as Apache Kafka's own classes write them."""
