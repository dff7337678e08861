"""Tests of the broker: a folder for each of its packages. `serving` runs handlers in this process."""
