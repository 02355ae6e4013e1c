"""Singer targets, which read the messages of a tap: a state for each 10,000 records."""
import json
import os
import subprocess

from into_postgres import Postgres
from into_sqlite import SQLite
from peer import ROOT, install


class Target:
    """What is common to all: the messages."""

    def prepare(self):
        super().prepare()
        self.tap, self.config = os.path.join(self.work, f"tap-{self.feed.topic}.jsonl"), os.path.join(self.work, type(self).__name__ + ".json")
        kinds = {int: "integer", float: "number", bool: "boolean"}
        schema = {"properties": {c: {"type": [kinds.get(t, "string"), "null"]} for c, t in sorted(self.feed.columns.items())}}
        with open(self.feed.path) as f, open(self.tap, "w") as out:
            out.write(json.dumps({"type": "SCHEMA", "stream": "t", "schema": schema, "key_properties": ["id"]}) + "\n")
            for n, line in enumerate(f, 1):
                out.write('{"type":"RECORD","stream":"t","record":%s}\n' % line.strip())
                if n % 10_000 == 0 or n == self.feed.messages:
                    out.write('{"type":"STATE","value":{"records":%d}}\n' % n)

    def target(self, config, *command, **kw):
        """Runs a target on the messages; its last state is the last of them."""
        with open(self.config, "w") as f:
            json.dump(config, f)
        states = os.path.join(self.work, "states")
        with open(self.tap) as messages, open(states, "w") as out:
            self.run(*command, "--config", self.config, stdin=messages, stdout=out, **kw)
        with open(states) as f:
            if json.loads(f.readlines()[-1]) != {"records": self.feed.messages}:
                raise RuntimeError("its last state is not that of the tap")

    def weir(self, to):
        self.target({"to": to, "quiet": True}, os.path.join(ROOT, "contrib", "target-weir"), env={**os.environ, "WEIR": self.args.weir})


class WeirIntoSQLite(Target, SQLite):
    name = "target-weir"

    def sync(self):
        self.weir(self.db)


class TargetSQLite(Target, SQLite):
    name = "target-sqlite"

    def prepare(self):
        super().prepare()  # its SQLAlchemy, and it, use a name that Python 3.10 has moved
        self.bin = install("target-sqlite==0.2.0")
        subprocess.run([os.path.join(self.bin, "pip"), "install", "-q", "--no-deps", "sqlalchemy==1.3.24"], check=True, stderr=subprocess.PIPE)

    def sync(self):
        self.target({"database": self.db.removesuffix(".db"), "batch_size": 10_000}, os.path.join(self.bin, "python"), "-c",
                    "import collections.abc as c, collections; collections.MutableMapping = c.MutableMapping; import target_sqlite; target_sqlite.main()")


class WeirIntoPostgres(Target, Postgres):
    name = "target-weir"

    def sync(self):
        self.weir(self.url())


class TargetPostgres(Target, Postgres):
    name = "target-postgres"

    def prepare(self):
        super().prepare()
        self.bin = install("meltanolabs-target-postgres==0.8.1")

    def sync(self):
        self.target({"sqlalchemy_url": self.args.postgres.replace("postgres://", "postgresql+psycopg2://", 1), "default_target_schema": "weir_peers",
                     "add_record_metadata": False, "activate_version": False}, os.path.join(self.bin, "target-postgres"))


INTO_SQLITE = (WeirIntoSQLite, TargetSQLite)
INTO_POSTGRES = (WeirIntoPostgres, TargetPostgres)
