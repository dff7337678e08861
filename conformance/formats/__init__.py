"""Readers of the formats that test runners write: they make results of it.

- `go_test`  the events of `go test -json`
- `jest`     the report of `jest --json`
- `junit`    JUnit XML, as pytest and other runners write it
"""
