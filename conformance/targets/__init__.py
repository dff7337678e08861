"""The brokers that suites run against.

- `brokers`    starts a new broker, or a new cluster of ours, for each suite
- `cluster`    several of our brokers with ZooKeeper, which a suite may stop and start
- `toxiproxy`  proxies between a client and a broker, to delay, break and restore connections
"""
