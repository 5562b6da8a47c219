# Needs Python 3.11, Java 17 and make; everything else goes into .venv, and Spark fetches its jars.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Random histories of each profile, always the same; DBT_BACKFILL_SEED=7 draws others.
HISTORIES := 2
test-all: HISTORIES := 4

# What `make thrift` serves; FORMAT is that of plain table names, METASTORE a PostgreSQL's JDBC URL.
PORT ?= 10000
LAKE ?= example_project/.lake
FORMAT ?= delta
METASTORE ?=

# What `make bench` plays: the scale factor of TPC-H, and all workloads of benchmarks/costs/workloads.py where none is named.
SCALE ?= 0.1
ROUNDS ?= 3
WARM_UP ?= 10
WORKLOADS ?=
CONFIG ?=

.PHONY: help demo thrift docs test test-fast lint format clean

help:
	@echo 'make demo       backfill the flights of 2013, barrier by barrier, while they change'
	@echo '                (STORE=s3: the tables are in an object store, SeaweedFS on this machine)'
	@echo 'make demo-cdc   backfill a table of a live PostgreSQL, barrier by barrier, while applications write to it'
	@echo '                (INSTALL=1 to install PostgreSQL, if it is missing)'
	@echo 'make thrift     Spark'\''s Thrift server on the demo'\''s lake, until Ctrl-C'
	@echo '                (PORT=10000 LAKE=example_project/.lake FORMAT=delta|iceberg METASTORE=jdbc:...)'
	@echo 'make bench      what it costs beside plain statements and dbt'\''s own materializations, into benchmarks/RESULTS.md'
	@echo '                (SCALE=0.1 ROUNDS=3 FORMAT=delta|iceberg WORKLOADS=lineitem,updates-1 CONFIG=option=value)'
	@echo 'make test       what CI runs: lint, the unit tests and the core set of the real ones'
	@echo 'make test-all   all tests on all profiles (SHARD=2/4: the second of four equal parts)'
	@echo 'make core       choose the core set anew, from what the last `make test-all` recorded'
	@echo 'make test-faults'
	@echo '                every fault at every statement, on both formats, lost connections and 20 real kills of each kind: hours'
	@echo 'make test-dbt-suites'
	@echo '                dbt'\''s own suites for adapters (PART=seed: some of them)'
	@echo 'make test-spark-connect'
	@echo '                the quickstart through Spark Connect'
	@echo 'make test-cluster'
	@echo '                a backfill on a standalone Spark cluster of two workers, which die'
	@echo 'make test-stores'
	@echo '                MVs in an object store: histories, kills, two drivers, and Delta'\''s log stores'
	@echo 'make test-versions'
	@echo '                the core set with other versions of Python, dbt, Spark, Delta and Iceberg (ROW="dbt-1.12 -k story"): hours'
	@echo 'make test-debezium'
	@echo '                real events of Debezium, under writers and kills'
	@echo 'make test-fast  lint and the tests that need no Spark'
	@echo 'make docs       the pages of docs/ as a site, in site/'
	@echo 'make lint       ruff, ruff format, mypy, the private words of tests/support/words.toml, and Jinja for dbt 2'
	@echo 'make errors     write the messages of the macros into docs/messages.md'
	@echo 'make format     let ruff repair what it can'
	@echo 'make clean      remove .venv and what dbt and Spark left behind'

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'Installing into $(VENV) ...'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev,demo,report]'
	@touch $@

.PHONY: java
java:
	@test -n "$$JAVA_HOME" || command -v java > /dev/null || \
		{ echo 'No java found: install Java 17, or set JAVA_HOME to it.' >&2; exit 1; }

# STORE=s3: in an object store, which is installed too.
STORE ?=
demo: $(INSTALLED) $(if $(STORE),$(VENV)/.installed-$(STORE)) java
	STORE='$(STORE)' $(BIN)/python example_project/demo.py

# INSTALL=1 lets it install PostgreSQL from Debian's packages, if it is missing.
.PHONY: demo-cdc
demo-cdc: $(INSTALLED) java
	PYTHONPATH=example_project:tests INSTALL='$(INSTALL)' $(BIN)/python example_cdc/demo.py

thrift: $(INSTALLED) java
	@PYTHONPATH=example_project $(BIN)/python -m nyc.thrift_server \
		--port '$(PORT)' --lake '$(LAKE)' --format '$(FORMAT)' --metastore '$(METASTORE)'

.PHONY: bench
bench: $(INSTALLED) java
	$(BIN)/python benchmarks/bench.py --format '$(FORMAT)' --scale '$(SCALE)' --rounds '$(ROUNDS)' \
		--warm-up '$(WARM_UP)' --workloads '$(WORKLOADS)' $(if $(CONFIG),--config "$(CONFIG)")

# An extra of pyproject.toml, which only one target needs.
$(VENV)/.installed-%: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	@touch $@

# Each link and anchor that leads nowhere is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'The site is in site/: open site/index.html, or serve it (its search needs that):'
	@echo '  $(BIN)/python -m http.server --directory site --bind 127.0.0.1 8000'

.PHONY: jars
jars: $(INSTALLED) java
	@echo 'Fetching the jars ...'
	@PYTHONPATH=example_project $(BIN)/python -c \
		'from nyc.thrift_server import *; fetch_jars([*SERVER, POSTGRESQL])'

# The core set of tests, which tests/recorded/core.json names; two lanes keep two cores busy.
test: lint docs jars
	@$(LANES) core

# All tests on all profiles where they mean something; SHARD=2/4: the second of four equal parts.
.PHONY: test-all
SHARD ?=
test-all: lint docs jars
	@$(LANES) all --shard '$(SHARD)'
	$(if $(filter-out 1/%,$(SHARD)),@true,$(MAKE) test-stores-short)

LANES = PYTHONPATH=tests:example_project DBT_BACKFILL_HISTORIES=$${DBT_BACKFILL_HISTORIES:-$(HISTORIES)} \
	$(BIN)/python -m support.lanes

# What the core is, from the records that the last `make test-all` left in .records/.
.PHONY: core
core: $(INSTALLED)
	@PYTHONPATH=tests $(BIN)/python -m support.core .records/all/*.json

# dbt's own suites, as docs/dbt-suites.md says that they end: too long for CI. PART takes what `pytest -k` does;
# ADAPTER=spark runs them with stock dbt-spark: those that end as stock do so there too.
.PHONY: test-dbt-suites
PART ?=
ADAPTER ?= spark_backfill
test-dbt-suites: $(VENV)/.installed-suites java
	$(BIN)/python -m pytest tests/dbt_suites --adapter '$(ADAPTER)' -k '$(PART)'

# The quickstart through Spark Connect, whose client needs packages that nothing else does.
.PHONY: test-spark-connect
test-spark-connect: $(VENV)/.installed-connect java
	DBT_BACKFILL_CONNECT=1 $(BIN)/python -m pytest tests/functional/test_spark_connect.py

# A master and two workers of Spark beside the driver: more than a machine of CI has room for.
.PHONY: test-cluster
test-cluster: $(INSTALLED) java
	DBT_BACKFILL_CLUSTER=1 $(BIN)/python -m pytest tests/exactness/test_cluster.py
	DBT_BACKFILL_CLUSTER=1 $(BIN)/python -m pytest tests/exactness/test_cluster.py --profile session-iceberg
	DBT_BACKFILL_CLUSTER=1 $(BIN)/python -m pytest tests/exactness/test_cluster.py --profile thrift-delta

# Ten minutes of `make test-stores`; the first part of `make test-all` runs it too.
.PHONY: test-stores-short
test-stores-short: $(VENV)/.installed-stores java
	DBT_BACKFILL_HISTORIES=1 $(BIN)/python -m pytest tests/stores/test_stores.py -k 'every_version or killed' --profile session-delta --all
	DBT_BACKFILL_HISTORIES=1 DBT_BACKFILL_CATALOG=rest $(BIN)/python -m pytest tests/stores/test_stores.py -k 'every_version or killed' \
		--profile session-iceberg --all

# An object store, which is large, as are the jars of its clients. Needs a JDK.
.PHONY: test-stores
test-stores: $(VENV)/.installed-stores java
	$(BIN)/python -m pytest tests/stores/test_log_stores.py tests/stores/test_stores.py --profile session-delta --all
	DBT_BACKFILL_LOG_STORE=conditional $(BIN)/python -m pytest tests/stores/test_stores.py --profile session-delta --all
	$(BIN)/python -m pytest tests/stores/test_stores.py --profile session-iceberg --all
	$(BIN)/python -m pytest tests/stores/test_format_2.py --profile session-iceberg --all
	for catalog in rest hive glue; do DBT_BACKFILL_CATALOG=$$catalog \
		$(BIN)/python -m pytest tests/stores/test_stores.py --profile session-iceberg --all || exit 1; done

# Needs python3.12 and python3.13 too. ROW takes a row of tests/support/versions.py, and arguments of pytest.
.PHONY: test-versions
ROW ?=
test-versions: $(INSTALLED) java
	PYTHONPATH=tests $(BIN)/python -m support.versions $(ROW)

# Real events of Debezium, which is large.
.PHONY: test-debezium
test-debezium: $(VENV)/.installed-debezium java
	DBT_BACKFILL_DEBEZIUM=1 $(BIN)/python -m pytest tests/functional/test_debezium.py
	DBT_BACKFILL_DEBEZIUM=1 $(BIN)/python -m pytest tests/functional/test_debezium.py --profile session-iceberg --all

# Too long for CI.
.PHONY: test-faults
KILL_SUITES := $(addprefix tests/exactness/test_,real_kills.py lost_connections.py)
FAULT_SUITES := $(addprefix tests/exactness/test_,fault_matrix.py protections.py interleavings.py twin_histories.py postgres_kills.py)
test-faults: export DBT_BACKFILL_FAULTS = all
test-faults: export DBT_BACKFILL_INTERLEAVINGS = 20
test-faults: export DBT_BACKFILL_KILLS = 20
test-faults: export DBT_BACKFILL_TWIN_HISTORIES = 100
test-faults: $(INSTALLED) java
	$(BIN)/python -m pytest $(FAULT_SUITES)
	$(BIN)/python -m pytest $(FAULT_SUITES) --profile session-iceberg --all
	$(BIN)/python -m pytest $(KILL_SUITES) --profile thrift-delta
	$(BIN)/python -m pytest $(KILL_SUITES) --profile thrift-iceberg

test-fast: lint docs test-unit

.PHONY: test-unit
test-unit: $(INSTALLED)
	$(BIN)/python -m pytest tests/unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=tests $(BIN)/python -m support.words
	PYTHONPATH=tests $(BIN)/python -m support.dbt_2

.PHONY: errors
errors: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.errors

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache dist site
	rm -rf target logs dbt_packages spark-warehouse metastore_db derby.log
	rm -rf $(foreach project,example_project example_cdc,$(addprefix $(project)/,.lake target logs dbt_packages))
