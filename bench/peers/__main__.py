"""Runs weir and its peers on one sparse feed, compares each table with the fold of the feed, and prints
rates, the CPU that a message takes (without that of the database's server and the broker), and the
most memory. The peers come from public package registries.

    python3 bench/peers [FEED] [--postgres URL] [--kafka HOST:PORT] [--weir bin/weir]

FEED is JSON lines with a key field "id"; without one the hot feed of the benchmarks is made, 100,000
messages of 5,000 ids. For those that write to Postgres, --postgres is a database that may be written
to, and for those that read Kafka, --kafka is a broker whose topic "feed" holds FEED, and "sample"
sample.jsonl, each in four partitions (make bench-peers starts both). The peers are installed into
bin/peers. What cannot be had is said. It needs Python 3.9, and Java 17 and Maven for Kafka's.
"""
import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import from_kafka
import from_tap
import into_postgres
import into_sqlite
from peer import HERE, ROOT, Feed


def measure(kind, args, sample, feed, work):
    """What one peer makes of the sample, and what it takes for the feed."""
    peer = kind(args, sample, work)
    peer.prepare()
    peer.sync()
    row = next(iter(peer.rows().values()))
    peer.close()
    peer = kind(args, feed, work)
    peer.prepare()
    begun, before = time.time(), cpu()
    peer.sync()
    took, used = time.time() - begun - peer.start, cpu() - before - peer.start_cpu
    verdict = feed.verdict(peer.rows())
    peer.close()
    return row, feed.messages / took, 1e6 * used / feed.messages, peer, verdict


def cpu():
    """Seconds that programs have used which we started, and which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def words(e):
    """The end of what a program has said."""
    said = [(getattr(e, s, None) or b"").decode(errors="replace").strip() for s in ("stderr", "stdout")]
    return (said[0] or said[1] or str(e)).splitlines()[-1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("feed", nargs="?")
    p.add_argument("--postgres", default="")
    p.add_argument("--kafka", default="")
    p.add_argument("--weir", default=os.path.join(ROOT, "bin", "weir"))
    args = p.parse_args()
    work = tempfile.mkdtemp()
    try:
        path = os.path.abspath(args.feed) if args.feed else os.path.join(work, "feed.jsonl")
        if not args.feed:
            subprocess.run(["go", "run", "./internal/test/bench/gen", "-kind", "hot", "-messages", "100000", "-ids", "5000", "-o", path], check=True, cwd=ROOT)
        feed, sample = Feed(path, "feed"), Feed(os.path.join(HERE, "sample.jsonl"), "sample")
        print(f"{feed.messages} messages, {len(feed.rows)} ids. The first line of a peer is its row of sample.jsonl.")
        for title, peers in (("a file into SQLite", into_sqlite.PEERS), ("a file into Postgres", into_postgres.PEERS), ("a Singer tap into SQLite", from_tap.INTO_SQLITE),
                             ("a Singer tap into Postgres", from_tap.INTO_POSTGRES), ("Kafka into Postgres", from_kafka.PEERS)):
            print(f"\n{title:28} {'messages/s':>10} {'weir is':>8} {'CPU':>8} {'memory':>8}")
            fastest = 0
            for kind in peers:
                try:
                    row, rate, used, peer, verdict = measure(kind, args, sample, feed, work)
                except (RuntimeError, OSError, subprocess.CalledProcessError) as e:
                    print(f"  {kind.name:26} not measured: {words(e)}", flush=True)
                    continue
                fastest = fastest or rate
                print(f"  {kind.name:26} {' | '.join(str(row.get(c)) for c in sample.columns)}")
                print(f"  {'':26} {rate:10.0f} {fastest / rate:7.1f}x {used:5.1f} µs {peer.peak / 1e6:5.0f} MB  {verdict}"
                      + (f", and {peer.start:.1f} s to start" if peer.start else ""), flush=True)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
