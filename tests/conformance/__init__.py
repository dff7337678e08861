"""Tests of what the conformance suites share: parsers of results, and the page."""
