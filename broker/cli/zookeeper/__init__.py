"""`kafkalog zookeeper`: run a ZooKeeper server on this machine.

- `start`    `kafkalog zookeeper start`
- `server`   the server's process: its properties, its start, whether it serves
- `jars`     where the server's classes and a Java are
"""
