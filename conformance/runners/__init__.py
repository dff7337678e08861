"""Runners of the tests of a suite.

- `pytest_suite`  runs a suite by pytest, in its own virtual environment
- `go_suite`      runs the tests of a Go module
- `java_program`  compiles our Java program against one version of Kafka's clients, and runs it
- `checks`        runs our own checks, for programs that have no tests of their own
- `running`       runs a suite's program, with a time limit, and keeps its output
"""
