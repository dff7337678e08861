"""Tests of a cluster's controller: its decisions over a tree in memory, and the whole over ZooKeeper."""
