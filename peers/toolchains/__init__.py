"""The tools that build and run programs of other languages.

- `java`    classes and small Java sources, against the jars that they need
- `maven`   brings these jars
- `node`    programs for kafkajs
- `golang`  programs for franz-go
"""
