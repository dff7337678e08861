"""kafkalog on a cluster of Spark: `kafkalog spark check` and `kafkalog spark pack`.

- `check`        the command that checks an application's Python environments, and its options
- `survey`       runs the probe on the driver and the executors of a running application
- `probe`        a script that describes the Python that runs it, without kafkalog or PySpark
- `interpreters` which Python Spark takes, from its environment variables and settings
- `facts`        what a probe has found, as values
- `diagnosis`    what is wrong, and the setting that mends it
- `report`       all of it as text
- `pack`         makes an archive of this environment for `--archives`
- `distributions` what is installed, and what of it an archive needs
- `kernels`      compiled kernels for archives
- `launcher`     the archive's `bin/python`: runs a host's own Python with the archive's packages
"""
