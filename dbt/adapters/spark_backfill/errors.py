"""From what Spark says about a failed statement to what a dbt user should read.

Spark's own text is several screens of Java stack and query plan; it goes to dbt's debug log.
"""

import re

from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

OWN_ERROR = re.compile(
    r"\[USER_RAISED_EXCEPTION\]\s*(backfilled_mv .*?)\s*SQLSTATE: P0001", re.DOTALL
)
"""A text that a statement of ours raised, e.g. because another run has committed first."""

ERROR_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] ?\S.*")
ANALYSIS_ERROR = re.compile(r"\b(?:AnalysisException|ParseException)\b")
JAVA_STACK = re.compile(r"\n+(?:JVM stacktrace:|\tat |\s*at [\w.$]+\()")


class SparkStatementError(DbtDatabaseError):
    """A failed statement, with a text that is fit to be shown."""


def get_error_text(error: BaseException) -> str:
    """Spark's full text of an error that dbt-spark's connection raised.

    A Thrift server's answer holds the text in `status.errorMessage`, which `str` would print as
    one long escaped line.
    """
    if isinstance(error, DbtRuntimeError):
        return str(error.msg)
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or str(error)
    return str(text) or type(error).__name__


def is_analysis_error(error: BaseException, text: str) -> bool:
    """True if Spark refused the statement's text rather than failed while it ran."""
    cause = error.__cause__
    names = " ".join(type(e).__name__ for e in (error, cause) if e is not None)
    return bool(ANALYSIS_ERROR.search(f"{names} {text[:1000]}"))


def get_shown_text(error: BaseException) -> str:
    """The part of an error's text that a user needs.

    Ours: the raised text alone. A statement that Spark refused: everything above the Java stack,
    since the lines below the first one point into the query. Anything else: the line with the
    error class, such as `[DIVIDE_BY_ZERO] Division by zero`.
    """
    text = get_error_text(error)
    if own := OWN_ERROR.search(text):
        return own.group(1)
    if is_analysis_error(error, text):
        return JAVA_STACK.split(text, maxsplit=1)[0].strip()
    if described := ERROR_CLASS.search(text):
        return described.group(0).strip()
    return text.strip().split("\n", maxsplit=1)[0]
