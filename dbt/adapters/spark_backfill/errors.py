"""Turn Spark's error of a failed statement into the text that a dbt user should read.

Spark's own text is several screens of Java stack and query plan. It goes to dbt's debug log.
"""

import logging
import re

from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

OWN_ERROR = re.compile(
    r"\[USER_RAISED_EXCEPTION\]\s*(backfilled_mv .*?)\s*SQLSTATE: P0001", re.DOTALL
)
"""A text that a statement of this package raised, e.g. because another run has committed first."""

ERROR_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] ?\S.*")
ANALYSIS_ERROR = re.compile(r"\b(?:AnalysisException|ParseException)\b")
JAVA_STACK = re.compile(r"\n+(?:JVM stacktrace:|\s*at [\w.$/]+\()")
QUERY_PLAN = re.compile(r";\n(?=['!]*[A-Z+:])")
CALLED_FROM_PYTHON = re.compile(r"\AAn error occurred while calling \S+\s*:\s*")
CAUSE = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
JAVA_PACKAGE = re.compile(r"\A(?:[a-z][\w$]*\.)+(?=[A-Z])")


STEP = re.compile(r"\A\s*(?:/\* \{.*?\} \*/\s*)?/\* (\S+: [^*{}]+?) \*/")
"""The comment with the MV and the step, which follows dbt's comment before a statement."""

CONFLICT = re.compile(
    r"DELTA_CONCURRENT|Concurrent(?:Append|DeleteRead|DeleteDelete|Write|Transaction)Exception"
    r"|MetadataChangedException|ProtocolChangedException"
    r"|Found conflicting|Found new conflicting|CommitFailedException|Cannot commit"
    r"|[Mm]issing (?:data files|required files to delete)|Commit conflict"
    r"|has been updated by another process"
)
"""The texts of Delta's and Iceberg's errors if another commit came first. The failed statement has
written nothing."""


class SparkStatementError(DbtDatabaseError):
    """A failed statement, with a text that can be shown to a user."""


class RefusalError(DbtRuntimeError):
    """The message of the macro `refuse`, with dbt's heading and nothing else.

    dbt appends a line for each macro on the stack to a `CompilationError`. These lines do not help
    a user.
    """

    @property
    def type(self) -> str:
        return "Compilation"


def get_error_text(error: BaseException) -> str:
    """Return Spark's full text of an error that dbt-spark's connection raised.

    A Thrift server's answer has the text in `status.errorMessage`. `str` would print the whole
    answer as one long escaped line.
    """
    if isinstance(error, DbtRuntimeError):
        return str(error.msg)
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or str(error)
    return str(text) or type(error).__name__


def get_step(sql: str) -> str | None:
    """Return the step of a statement of the materialization; None for any other statement."""
    found = STEP.search(sql)
    return found.group(1) if found else None


def is_conflict(error: BaseException) -> bool:
    """True if a statement failed because another commit came first."""
    text = get_error_text(error.__cause__) if error.__cause__ else str(error)
    return CONFLICT.search(text) is not None


def is_analysis_error(error: BaseException, text: str) -> bool:
    """True if Spark refused the statement's text, and so never executed the statement."""
    cause = error.__cause__
    names = " ".join(type(e).__name__ for e in (error, cause) if e is not None)
    return bool(ANALYSIS_ERROR.search(f"{names} {text[:1000]}"))


def get_shown_text(error: BaseException) -> str:
    """Return the part of an error's text that a user needs.

    For an error of this package, the part is only the raised text. For a statement that Spark
    refused, the part is everything above the query plan and the Java stack: its later lines may
    point into the query. For any other error, the part is the line with the error class, such as
    `[DIVIDE_BY_ZERO] Division by zero`, and the innermost cause if its text differs.
    """
    text = get_error_text(error)
    if own := OWN_ERROR.search(text):
        return own.group(1)
    if is_analysis_error(error, text):
        shown = JAVA_STACK.split(text, maxsplit=1)[0]
        return QUERY_PLAN.split(shown, maxsplit=1)[0].strip()
    described = ERROR_CLASS.search(text)
    causes = CAUSE.findall(text)
    cause = _without_java_class(causes[-1]) if causes else None
    if described is None:
        return cause or _without_java_class(CALLED_FROM_PYTHON.sub("", text.strip()))
    shown = described.group(0).strip()
    return shown if cause is None or cause in shown else f"{shown}\nCaused by {cause}"


def _without_java_class(text: str) -> str:
    """Return the first line, without Java's class names in front of an error class."""
    line = text.split("\n", maxsplit=1)[0].strip()
    if described := ERROR_CLASS.search(line):
        return described.group(0)
    return JAVA_PACKAGE.sub("", line)


def silence_error_log() -> None:
    """Stop pyspark from printing each error of an in-process session as JSON, with its stack.

    dbt shows the same error once, with its own messages.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
