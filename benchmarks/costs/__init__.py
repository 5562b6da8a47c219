"""The workloads of `bench.py`, and the page of its results."""

import lineitem  # noqa: F401  puts the folders of `support` and `nyc` on the path
