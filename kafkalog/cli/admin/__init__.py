"""The commands that administer a cluster. They parse, call `kafkalog.client.admin` and print.

- `topics`             `kafkalog topics`
- `configs`            `kafkalog configs`; `quotas` is its part for users, client ids and addresses
- `groups`             `kafkalog groups`: a module for each of its commands
- `offsets`            `kafkalog offsets`: offsets of groups in ZooKeeper
- `transactions`       `kafkalog transactions`
- `reassign`           `kafkalog reassign`: partitions move between brokers
- `elect`              `kafkalog elect`: leaders are elected
- `isr`                `kafkalog isr`: why leaders and in-sync replicas changed
- `partition_files`    JSON files that name partitions
- `delete_records`     `kafkalog delete-records`
- `get_offsets`        `kafkalog get-offsets`
- `log_dirs`           `kafkalog log-dirs`
- `features`           `kafkalog features`
- `security`           `kafkalog acls`, `kafkalog delegation-tokens`, and logins of users
"""
