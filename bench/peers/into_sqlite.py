"""Peers that write a file into SQLite."""
import glob
import os
import sqlite3

from peer import HERE, Peer, by_id, install


class SQLite(Peer):
    def __init__(self, *args):
        super().__init__(*args)
        self.db = os.path.join(self.work, f"{type(self).__name__}-{self.feed.topic}.db")

    def create(self):
        """Makes the table, for those that do not."""
        kinds = {int: "INTEGER", float: "REAL"}
        columns = ", ".join(f'"{c}" {kinds.get(t, "TEXT")}' + " PRIMARY KEY" * (c == "id") for c, t in self.feed.columns.items())
        with sqlite3.connect(self.db) as db:
            db.execute(f"CREATE TABLE t ({columns})")

    def rows(self):
        db = sqlite3.connect(self.db)
        db.row_factory = sqlite3.Row
        return by_id([dict(r) for r in db.execute("SELECT * FROM t")])


class Weir(SQLite):
    name = "weir"

    def sync(self):
        self.run(self.args.weir, "sync", self.feed.path, "--to", self.db, "--table", "t", "-q")


class SqliteUtils(SQLite):
    name = "sqlite-utils upsert"

    def prepare(self):
        self.bin = install("sqlite-utils==4.2.1")

    def sync(self):
        self.run(os.path.join(self.bin, "sqlite-utils"), "upsert", self.db, "t", self.feed.path, "--nl", "--pk", "id", "--alter")


class Sling(SQLite):
    name = "sling"

    def prepare(self):
        home = install("sling-linux-amd64==1.4.11")  # the newest whose package holds the program
        self.sling = glob.glob(os.path.join(home, "../lib/python3*/site-packages/sling_linux_amd64/bin/sling-linux-amd64"))[0]
        os.chmod(self.sling, 0o755)

    def sync(self):
        self.run(self.sling, "run", "--src-stream", "file://" + self.feed.path, "--tgt-conn", "sqlite://" + self.db, "--tgt-object", "main.t",
                 "--mode", "incremental", "--primary-key", "id", "--src-options", "{flatten: true}", env={**os.environ, "HOME": self.work, "SLING_DISABLE_TELEMETRY": "true"})


class Script(SQLite):
    name = "script.py"

    def prepare(self):
        self.create()

    def sync(self):
        self.run("python3", os.path.join(HERE, "script.py"), self.feed.path, self.db)


PEERS = (Weir, Script, SqliteUtils, Sling)
