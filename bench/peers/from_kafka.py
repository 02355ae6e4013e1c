"""Peers that write a topic of Kafka into Postgres."""
import filecmp
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from into_postgres import Postgres
from peer import HERE, HOME


class Kafka(Postgres):
    def prepare(self):
        if not self.args.kafka:
            raise RuntimeError("no --kafka broker")
        super().prepare()


class Weir(Kafka):
    name = "weir"

    def sync(self):
        self.run(self.args.weir, "sync", f"kafka://{self.args.kafka}/{self.feed.topic}", "--partitions", "0-3", "--until-end",
                 "--to", self.url(), "--table", "t", "-q")


class Debezium(Kafka):
    """Debezium's JDBC sink in a standalone worker of Kafka Connect. The topic's messages have no schema of
    their own: the worker has it, with each column optional."""
    name = "Debezium JDBC sink"
    settings, options = {}, {}  # beside what it cannot do without

    def prepare(self):
        super().prepare()
        self.jars, pom = os.path.join(HOME, "connect"), os.path.join(HERE, "connect.xml")
        if not os.path.exists(os.path.join(self.jars, "connect.xml")) or not filecmp.cmp(pom, os.path.join(self.jars, "connect.xml")):
            shutil.rmtree(self.jars, ignore_errors=True)
            subprocess.run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime",
                            "-DoutputDirectory=" + self.jars], check=True, stdout=subprocess.PIPE)
            shutil.copy(pom, self.jars)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.rest = f"127.0.0.1:{s.getsockname()[1]}"
        self.connector = f"peers-{time.time()}"  # names the consumer group, too
        kinds = {int: "int64", float: "double", bool: "boolean"}
        schema = {"type": "struct", "optional": False, "fields": [
            {"field": c, "type": kinds.get(t, "string"), "optional": c != "id"} for c, t in self.feed.columns.items()]}
        url = urllib.parse.urlsplit(self.args.postgres)
        query = urllib.parse.urlencode({"currentSchema": "weir_peers", **self.options})
        self.worker = self.properties("worker", {
            "bootstrap.servers": self.args.kafka, "listeners": "http://" + self.rest, "offset.storage.file.filename": os.path.join(self.work, "offsets"),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "true", "value.converter.schema.content": json.dumps(schema), "offset.flush.interval.ms": 200})
        self.sink = self.properties("sink", {
            "name": self.connector, "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": self.feed.topic,
            "connection.url": f"jdbc:postgresql://{url.hostname}:{url.port or 5432}{url.path}?{query}",
            "connection.username": url.username or "postgres", "connection.password": url.password or "none", "collection.name.format": "t",
            "insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "id", "schema.evolution": "basic", **self.settings})

    def properties(self, name, settings):
        path = os.path.join(self.work, name + ".properties")
        with open(path, "w") as f:
            f.writelines(f"{k}={v}\n" for k, v in settings.items())
        return path

    def sync(self):
        begun = time.time()
        log = os.path.join(self.work, "connect.log")
        with open(log, "w") as f:
            # Heap and collector are those of Kafka's connect-standalone.sh.
            p = self.started("java", "-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                             "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", os.path.join(self.jars, "*"),
                             "org.apache.kafka.connect.cli.ConnectStandalone", self.worker, self.sink, stdout=f, stderr=f)
        try:
            while (done := self.committed()) < self.feed.messages:
                if p.poll() is not None or self.failed():
                    with open(log) as f:
                        raise RuntimeError(([line.strip() for line in f if "ERROR" in line or "Caused by" in line] or ["it ended"])[-1])
                if not done:
                    self.start, self.start_cpu = time.time() - begun, cpu_of(p.pid)
                time.sleep(0.05)
        finally:
            p.kill()
            p.wait()

    def ask(self, what):
        try:
            with urllib.request.urlopen(f"http://{self.rest}/connectors/{self.connector}/{what}", timeout=5) as r:
                return json.load(r)
        except (urllib.error.URLError, TimeoutError):
            return {}

    def committed(self):
        """How many records it has written, by its own word. The topic's offsets are counts."""
        return sum(o["offset"]["kafka_offset"] for o in self.ask("offsets").get("offsets", []))

    def failed(self):
        return any(t["state"] == "FAILED" for t in self.ask("status").get("tasks", []))


def cpu_of(pid):
    """Seconds that a process has used."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class DebeziumTuned(Debezium):
    """The fastest of the settings that were tried. The driver may join inserts only where none of an id is in a
    batch twice, so the reduction buffer is needed; more tasks are no faster on two cores."""
    name = "Debezium JDBC sink, tuned"
    settings = {"batch.size": 5000, "consumer.override.max.poll.records": 5000, "use.reduction.buffer": "true"}
    options = {"reWriteBatchedInserts": "true"}


PEERS = (Weir, Debezium, DebeziumTuned)
