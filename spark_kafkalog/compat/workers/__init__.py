"""Private parts of Spark's Python processes: which one this is, how the JVM starts them, what they import.

- `processes`    whether this process is a Python worker
- `forks`        whether the active SparkContext is of this process, or of one that has forked it
- `starting`     the programs that the JVM runs with Python, for processes that are forked with their imports made
- `precompiled`  byte code in PySpark's archives, added by a command
"""
