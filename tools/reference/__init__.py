"""Generate the pages cli.md, apis.md and api/ of docs/reference from the code: `python -m tools.reference`.

- `commands`     the command-line reference, from the argument parsers
- `served_apis`  the protocol's APIs and versions, from the broker's registry
- `api`          the Python reference, from the docstrings of public names
"""
