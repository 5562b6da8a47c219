"""The command line `dbt-backfill`, a convenience on top of run-operations and `dbt run`.

The command line shows only facts from the state. dbt's own commands can do everything that it does.
"""
