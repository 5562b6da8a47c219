"""Split the tests of a profile into parts that take equally long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

UNKNOWN = 10.0
"""The assumed seconds of a test that was never recorded."""
LONG_FILE = 300.0
"""The tests of a file share fixtures, so they stay in one part.

A file that takes longer than this number of seconds is split.
"""


def names_in_shard(names: Sequence[str], seconds: Mapping[str, float], shard: str) -> set[str]:
    """Return the names of part I of N if `shard` is "I/N". Each name is in exactly one part.

    :raises ValueError: if the shard is not two numbers with 1 <= I <= N
    """
    number, _, parts = shard.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(f"no such shard: {shard}")
    by_file: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_file[name.partition("::")[0]].append(name)
    groups: list[list[str]] = []
    for tests in by_file.values():
        is_long = sum(seconds.get(name, UNKNOWN) for name in tests) > LONG_FILE
        groups += [[name] for name in tests] if is_long else [tests]
    loads = [0.0] * int(parts)
    shards: list[set[str]] = [set() for _ in loads]
    for group in sorted(groups, key=lambda g: (-sum(seconds.get(n, UNKNOWN) for n in g), g[0])):
        least = loads.index(min(loads))
        shards[least] |= set(group)
        loads[least] += sum(seconds.get(name, UNKNOWN) for name in group)
    return shards[int(number) - 1]
