"""The names of the programs that start Python, as settings and command lines have them."""

LAUNCHER = "kafkalog-python"
"""The program that starts Python quickly (`spark_kafkalog.starting.launch`)."""
DAEMON = "spark_kafkalog.daemon"
"""The module of the daemon that makes imports before it forks workers."""
FORK_SERVER = "spark_kafkalog.starting.fork_server"
"""The module of the process that the driver's processes are forked from; the JVM's process id is its first argument."""
