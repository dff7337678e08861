"""One module for each API: its request, its response, and what their fields mean (versions of Apache Kafka 3.9).

The modules have the names of the APIs and lie side by side, as the message files of Apache Kafka do. So the name of an
API is enough to find its module.
"""
