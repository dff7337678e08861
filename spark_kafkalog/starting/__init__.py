"""Python processes that Spark starts, without waiting for their imports.

Spark starts Python for the planner of each stream, and for daemons that fork its workers. Each of them imports PySpark,
numpy, pyarrow and kafkalog anew. The program `kafkalog-python` stands in for Python (`PYSPARK_PYTHON`): it imports
PySpark from its package, which has byte code, instead of an archive that has none, and has the driver's processes
forked from one that has imported everything.

- `launch`       what `kafkalog-python` runs: this Python, a fork of the fork server, or a daemon with imports
- `names`        what these programs are called in settings and command lines
- `archives`     PySpark's archives in PYTHONPATH, and the package that has the same code
- `ahead`        what is imported before a process is forked
- `handover`     how a launcher finds the fork server of its JVM, and hands a program over
- `fork_server`  the process that is forked
- `children`     the forked processes, as the fork server sees them
- `becoming`     how a forked process turns into the program
"""
