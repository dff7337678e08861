"""Tests, and the helpers (tests.peers) that the benchmarks share with them."""
