"""Tests of sessions with ZooKeeper: the real server over kazoo, and the simulated one, by the same contract."""
