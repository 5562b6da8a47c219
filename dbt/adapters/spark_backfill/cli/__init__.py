"""The command line `dbt-backfill`, a convenience on top of run-operations and `dbt run`.

It shows only facts that it reads from the state, and does nothing that dbt's own commands cannot
do.
"""
