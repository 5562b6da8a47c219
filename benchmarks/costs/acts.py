"""The names of the measurements in the results."""

CTAS = "create table as select"
TABLE = "dbt table"
INSERTS = "plain INSERTs"
MERGES = "plain MERGEs"
INCREMENTAL = "dbt incremental, merge"
BY_DATE = "dbt incremental, merge, by date"
BACKFILLED = "backfilled_mv"


def second_barrier(mv: str) -> str:
    return f"{mv}, the second barrier"


def last_barrier(mv: str) -> str:
    return f"{mv}, the last barrier"


def first_ten(mv: str) -> str:
    return f"{mv}, the second to eleventh barrier, the median"


def last_ten(mv: str) -> str:
    return f"{mv}, the last ten barriers, the median"


def idle(mv: str, versions: int) -> str:
    return f"{mv}, nothing to do at {versions} versions"


def all_rows(table: str) -> str:
    return f"all rows of {table}"


def one_key(table: str) -> str:
    return f"one key of {table}"
