"""Helpers of the tests, such as our broker as a process (`kafkalog_broker`) and requests over a socket (`wire`).

- `in_process/`  brokers, or parts of brokers, in the test's process
- `requests/`    requests of single clients
- `secured/`     ways to authenticate, rights, and servers that ask for them
- `sources/`     checks of what stands in the sources and pages, and of how tests run
"""
