"""Private parts of Py4J's gateway: what the driver reaches in its JVM.

- `jvm`                the driver's JVM and programs on executors, for a command
- `jvm_errors`         the JVM's stack trace of an error
- `hadoop_files`       small files at paths that Spark can write to
- `application_files`  the directory of an application's files
"""
