"""Tests of what groups of both protocols share: offsets, records, and the service over its logs."""
