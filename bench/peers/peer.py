"""What all peers have in common: where they are installed, how they are run and measured, and what is
expected of their tables."""
import json
import os
import subprocess
import threading
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.join(ROOT, "bin", "peers")
HERE = os.path.dirname(os.path.abspath(__file__))


def install(*packages):
    """The bin folder of an environment that holds packages, each NAME==VERSION."""
    home = os.path.join(HOME, packages[0])
    if not os.path.exists(os.path.join(home, "done")):
        venv.create(home, with_pip=True)
        subprocess.run([os.path.join(home, "bin", "pip"), "install", "-q", *packages], check=True, stderr=subprocess.PIPE)
        open(os.path.join(home, "done"), "w").close()
    return os.path.join(home, "bin")


class Feed:
    """A file of messages, and the topic that holds the same ones."""

    def __init__(self, path, topic):
        self.path, self.topic, self.messages, self.rows, self.columns = path, topic, 0, {}, {}
        with open(path) as f:
            for line in f:
                m = json.loads(line)
                self.messages += 1
                self.rows.setdefault(m["id"], {}).update(m)
                for c, v in m.items():
                    self.columns[c] = self.columns.get(c) or (type(v) if v is not None else None)

    def verdict(self, have):
        """What a table lost of the fold's values."""
        lost = stale = 0
        for id, row in self.rows.items():
            there = have.get(id, {})
            lost += sum(1 for c, v in row.items() if v is not None and text(there.get(c)) != text(v))
            stale += sum(1 for c in self.columns if row.get(c) is None and there.get(c) is not None)
        extra = sum(1 for id in have if id not in self.rows)
        total = sum(1 for r in self.rows.values() for v in r.values() if v is not None)
        faults = [f"loses {lost} values of {total}"] * (lost > 0) + [f"{stale} values that are to be NULL"] * (stale > 0)
        return ", ".join(faults + [f"{extra} rows too many"] * (extra > 0)) or "right"


def text(v):
    if isinstance(v, bool):
        return str(int(v))
    return v if isinstance(v, str) else json.dumps(v)


def by_id(all):
    rows = {}
    for r in all:
        id = r["id"] if r["id"] not in rows else f"{r['id']} again {len(rows)}"
        rows[id] = r
    return rows


class Peer:
    """One tool. prepare installs it and empties its database, sync is measured, rows is its table."""
    start = start_cpu = 0.0  # seconds of sync that a service takes once, until it has applied its first messages

    def __init__(self, args, feed, work):
        self.args, self.feed, self.work, self.peak = args, feed, work, 0

    def prepare(self):
        pass

    def close(self):
        pass

    def run(self, *command, **kw):
        """Runs a program to its end, which has to be good."""
        with self.started(*command, **kw) as p:
            _, err = p.communicate()
        if p.returncode:
            raise subprocess.CalledProcessError(p.returncode, command, stderr=err)

    def started(self, *command, **kw):
        """A running program, whose memory counts."""
        p = subprocess.Popen(command, **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **kw})
        threading.Thread(target=self.watch, args=(p,), daemon=True).start()
        return p

    def watch(self, p):
        """Keeps the most memory that a program has had. That of its usage at the end begins with ours."""
        while p.poll() is None:
            try:
                with open(f"/proc/{p.pid}/status") as f:
                    self.peak = max([self.peak] + [int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:")])
            except OSError:
                return
            threading.Event().wait(0.005)
