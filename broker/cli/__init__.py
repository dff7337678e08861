"""The broker's commands of `kafkalog`.

- `commands`  the table of them, which pyproject.toml announces as an entry point
- `server`    `kafkalog server start`
- `membership` `kafkalog server join` and `kafkalog server leave`
- `users`     `kafkalog server add-user`
- `zookeeper` `kafkalog zookeeper start`
- `cluster`   `kafkalog cluster`: ZooKeeper and brokers on this machine
- `settings`  what both share: a properties file, and settings that win over it
- `log`       `kafkalog log`: a module for each of its commands
"""
