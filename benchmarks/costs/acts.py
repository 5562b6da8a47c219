"""How the results call what was measured."""

CTAS = "create table as select"
TABLE = "dbt table"
INSERTS = "plain INSERTs"
MERGES = "plain MERGEs"
INCREMENTAL = "dbt incremental, merge"
BY_DATE = "dbt incremental, merge, by date"
BACKFILLED = "backfilled_mv"

FIRST_BARRIER, LAST_BARRIER = "first barrier", "last barrier"
FIRST_TEN, LAST_TEN = "first ten barriers, the median", "last ten barriers, the median"


def idle(versions: int) -> str:
    return f"{BACKFILLED}, nothing to do at {versions} versions"


def all_rows(table: str) -> str:
    return f"all rows of {table}"


def one_key(table: str) -> str:
    return f"one key of {table}"
