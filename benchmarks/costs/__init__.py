"""What `bench.py` plays, and what it makes of what it measured."""

import lineitem  # noqa: F401  puts the folders of `support` and `nyc` on the path
