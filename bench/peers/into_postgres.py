"""Peers that write a file into Postgres."""
import json
import os
import subprocess

from peer import HERE, Peer, by_id, install

QUERY = """
import sys, json, psycopg2.extras as e, psycopg2 as p
c = p.connect(sys.argv[1]); c.autocommit = True
k = c.cursor(cursor_factory=e.RealDictCursor); k.execute(sys.argv[2])
if k.description: json.dump(k.fetchall(), sys.stdout, default=str)
"""


class Postgres(Peer):
    def prepare(self):
        if not self.args.postgres:
            raise RuntimeError("no --postgres URL")
        self.python = os.path.join(install("psycopg2-binary==2.9.13"), "python")
        self.query("DROP SCHEMA IF EXISTS weir_peers CASCADE; CREATE SCHEMA weir_peers")

    def query(self, sql):
        out = subprocess.run([self.python, "-c", QUERY, self.args.postgres, sql], check=True, stdout=subprocess.PIPE).stdout
        return json.loads(out or "null")

    def url(self, setting="search_path=weir_peers"):
        return self.args.postgres + ("&" if "?" in self.args.postgres else "?") + setting

    def rows(self):
        return by_id(self.query("SELECT * FROM weir_peers.t"))

    def close(self):
        self.query("DROP SCHEMA IF EXISTS weir_peers CASCADE")


class Weir(Postgres):
    name = "weir"

    def sync(self):
        self.run(self.args.weir, "sync", self.feed.path, "--to", self.url(), "--table", "t", "-q")


class Script(Postgres):
    name = "script.py"

    def prepare(self):
        super().prepare()
        kinds = {int: "bigint", float: "double precision"}
        self.query("CREATE TABLE weir_peers.t (%s)" % ", ".join(
            f'"{c}" {kinds.get(t, "text")}' + " PRIMARY KEY" * (c == "id") for c, t in self.feed.columns.items()))

    def sync(self):
        self.run(self.python, os.path.join(HERE, "script.py"), self.feed.path, self.url("options=-csearch_path%3Dweir_peers"))


PEERS = (Weir, Script)
