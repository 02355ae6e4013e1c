"""Folds a feed of JSON lines with the key "id" into a table t of a new DuckDB database: of each column
the last value that a message named. It needs the package duckdb of PyPI.

    python3 bench/reference/fold.py FEED DB
"""
import json
import os
import sys

import duckdb

feed, path = sys.argv[1:]
if os.path.exists(path):
    os.remove(path)

columns = {}
with open(feed) as f:  # the names of the columns stand in its first lines
    for line in (next(f, None) for _ in range(10_000)):
        for name, value in json.loads(line or "{}").items():
            columns[name] = "BIGINT" if isinstance(value, int) else "VARCHAR"

db = duckdb.connect(path)
last = ", ".join(f'arg_max("{c}", n) AS "{c}"' for c in columns if c != "id")
db.execute(
    f"""CREATE TABLE t AS SELECT id, {last} FROM (
          SELECT *, row_number() OVER () AS n
          FROM read_json($1, format='newline_delimited', columns=$2))
        GROUP BY id""",
    [feed, columns],
)
db.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
db.close()
