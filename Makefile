# Two commands for a newcomer: `make quickstart` runs the main job, `make test` passes the tests of every layer.
# Each makes the environment it needs.

VENV ?= .venv
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := $(VENV)/bin
# Files of tests that run at the same time, more than cores because tests wait much; each worker has its own broker and
# Spark session, 1 GiB.
TEST_WORKERS ?= 4

# Images of containers often set this. Each of the thousand processes that tests start would compile its modules anew:
# importing the broker takes 1.25 s of a processor then and not 0.53, a Python worker of Spark 3.6 s and not 0.86.
unexport PYTHONDONTWRITEBYTECODE

# Which tests run where. tests/conftest.py derives `processes` and `peer` from the tests' fixtures.
IN_CHECK := not (processes or exhaustive or soak)
IN_TEST := not (peer or exhaustive or soak)
IN_REST := (peer or exhaustive) and not soak
# Tests of the log force thousands of small files to the device: in memory that costs nothing, where there
# are 4 GiB for files and 10 GiB in all.
IN_MEMORY := $(shell free=$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }'); \
	memory=$$(awk '/^MemAvailable/ { print $$2 }' /proc/meminfo 2>/dev/null); \
	[ "$${free:-0}" -gt 4194304 ] && [ "$${memory:-0}" -gt 10485760 ] && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
PYTEST = $(IN_MEMORY) $(BIN)/python -m pytest
# A file's tests stay together, because its brokers and Spark sessions serve all of them.
BY_FILE := -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

# Versions that development and CI install; `make install LOCK=` takes the newest ones that pyproject.toml allows.
LOCK ?= requirements-dev.lock

.PHONY: help quickstart check test test-rest test-all test-soak test-numba lint format docs install lock clean check-python check-java class-data

help:
	@echo "make quickstart   broker, topic, real input, Spark into Parquet: the main job, on this machine"
	@echo "make check        lint, and the tests that start no process"
	@echo "make test         every test layer, with brokers, Spark and Python clients"
	@echo "make test-all     every test but the soaks: also foreign programs, all seeds and schedules"
	@echo "make test-rest    what test-all adds to test"
	@echo "make test-soak    many more seeds, for hours"
	@echo "make test-numba   the tests of records with the oldest numba, in an environment of their own"
	@echo "make lint         ruff, mypy --strict, import contracts"
	@echo "make docs         write the generated pages of docs/ anew"
	@echo "make lock         choose the versions of requirements-dev.lock anew"
	@echo "make clean        remove the environment"

check-python:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "kafkalog needs Python 3.11, 3.12 or 3.13 and found none."; \
	  echo "  Debian/Ubuntu: sudo apt-get install python3 python3-venv"; \
	  echo "  macOS:         brew install python@3.12"; exit 1; fi
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. Debian/Ubuntu: sudo apt-get install python3-venv"; exit 1; }

check-java:
	@java_home="$${JAVA_HOME:+$$JAVA_HOME/bin/}"; \
	version=$$("$${java_home}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1); \
	if [ -z "$$version" ] || [ "$$version" -lt 17 ]; then \
	  echo "Spark needs Java 17 or newer$${version:+ and found Java $$version}."; \
	  [ -z "$$JAVA_HOME" ] || echo "  JAVA_HOME is $$JAVA_HOME: set it to a Java of that version, or unset it to use the one on PATH."; \
	  echo "  Debian/Ubuntu: sudo apt-get install openjdk-17-jre-headless"; \
	  echo "  macOS:         brew install openjdk@17"; exit 1; fi

$(BIN)/.installed: pyproject.toml $(LOCK)
	@$(MAKE) --no-print-directory check-python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# Python compiles the modules that it imports, which are a small part of all.
	$(BIN)/python -m pip install --quiet --no-compile $(if $(LOCK),-c $(LOCK)) -e '.[dev]'
	@# Built only where the headers of Kerberos are, for it has no wheels for Linux.
	@! command -v krb5-config >/dev/null || $(BIN)/python -m pip install --quiet --no-compile $(if $(LOCK),-c $(LOCK)) -e '.[gssapi]' \
	  || echo "The package gssapi could not be built; tests with Kerberos will say so."
	@# Tests start hundreds of Spark's Python workers, each of which would compile PySpark anew.
	@$(BIN)/kafkalog spark precompile > /dev/null
	@touch $@

install: $(BIN)/.installed

quickstart: check-java $(BIN)/.installed
	$(BIN)/kafkalog quickstart $(ARGS)

check: lint
	$(PYTEST) -m "$(IN_CHECK)" -n 4 --dist worksteal $(ARGS)

# Tests start many drivers of Spark, and each would load 12,000 classes anew. They run without the archive, too.
class-data: check-java $(BIN)/.installed
	-@$(BIN)/python -m tests.spark_kafkalog.class_data.make

test: class-data
	$(PYTEST) -m "$(IN_TEST)" $(BY_FILE) $(ARGS)

test-all: class-data
	KAFKALOG_TESTS=all $(PYTEST) -m "not soak" $(BY_FILE) $(ARGS)

test-rest: class-data
	KAFKALOG_TESTS=all $(PYTEST) -m "$(IN_REST)" $(BY_FILE) $(ARGS)

test-soak: class-data
	KAFKALOG_TESTS=all $(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)

test-numba:
	@$(MAKE) --no-print-directory check-python
	PYTHON=$(PYTHON) tools/try_numba oldest

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(BIN)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(BIN)/.installed
	$(BIN)/python -m broker.config.document > docs/reference/configuration.md
	$(BIN)/python -m broker.metrics.document > docs/reference/metrics.md
	$(BIN)/python -m tools.reference
	$(BIN)/python -m benchmarks.performance

lock: $(BIN)/.installed
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --extra gssapi \
	  --no-header --no-emit-index-url --no-annotate pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV)
