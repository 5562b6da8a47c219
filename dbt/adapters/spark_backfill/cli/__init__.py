"""The command line `dbt-backfill`, a convenience on top of run-operations and `dbt run`.

It only shows what it reads from the state, and only does what dbt's own commands can do.
"""
