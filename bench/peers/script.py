"""What one writes without a tool: each message is an upsert of the columns that it names, and each
1,000 are a transaction. It does not resume, and a bad line ends it.

    script.py FEED DATABASE
"""
import json
import sys

feed, database = sys.argv[1:]
if database.startswith("postgres"):
    import psycopg2
    db, mark = psycopg2.connect(database), "%s"
else:
    import sqlite3
    db, mark = sqlite3.connect(database), "?"
cursor = db.cursor()
with open(feed) as f:
    for n, line in enumerate(f, 1):
        m = json.loads(line)
        columns, marks = ", ".join(f'"{c}"' for c in m), ", ".join(mark for c in m)
        change = ", ".join(f'"{c}" = excluded."{c}"' for c in m)
        cursor.execute(f"INSERT INTO t ({columns}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {change}", list(m.values()))
        if n % 1000 == 0:
            db.commit()
db.commit()
