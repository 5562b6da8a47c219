"""The command line `dbt-backfill`: a comfort on top of run-operations and `dbt run`.

It shows nothing that is not read from the state, and does nothing that dbt's own commands cannot.
"""
