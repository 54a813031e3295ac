# SPDX-License-Identifier: MIT
"""tools/bench cluster, part rest: what a daemon costs while nobody asks for anything, alone and with a register and a remote store.

Both have had one conversation of some hundred tokens. Then nothing happens for a while. Processor time is that of all threads
(/proc/PID/task/*/schedstat; /proc/PID/stat only counts ticks of 10 ms); wakeups are their voluntary context switches. Both servers and the daemon are
in a network namespace of their own, so what its loopback interface carries is what a network would. Memory is the program's
part of all pages that it has (PSS), which depends on what else runs of the same files; so what is in no file (anonymous) is told apart.
"""

import os
import random
import time

from fleet import Fleet
from network import Namespace, why_not
from report import note, seconds, size
from rig import VOCABULARY, memory, tokens


def of_threads(pid, name, value):
    """The sum of value(text) over such a file of all threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/{name}", encoding="ascii") as f:
            total += value(f.read())
    return total


def line_of(text, key):
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(key))


def processor_time(pid):
    """Seconds."""
    return of_threads(pid, "schedstat", lambda text: int(text.split()[0])) / 1e9


def switches(pid):
    return of_threads(pid, "status", lambda text: line_of(text, "voluntary_ctxt_switches"))


def anonymous(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return 1024 * line_of(f.read(), "Anonymous:")


def measure(machine, space, duration):
    pid = machine.process.pid
    look = lambda: (processor_time(pid), switches(pid), *(space.counters("lo") if space else (0, 0)), time.monotonic())
    before = look()
    time.sleep(duration)
    cpu, wakeups, carried, packets, took = (b - a for a, b in zip(before, look()))
    return {"cpu": cpu / took, "wakeups": wakeups / took, "bytes": carried / took, "packets": packets / took,
            "memory": memory(pid), "anonymous": anonymous(pid)}


def rows(t, name, got, net):
    t.row(f"{name}: processor time a second", got["cpu"], seconds, f"{100 * got['cpu']:.4f} % of one")
    t.row("  wakeups a second", got["wakeups"], lambda v: f"{v:.2f}")
    if net:
        t.row("  bytes a second on the network, both ways", got["bytes"], size, f"{got['packets']:.2f} packets")
    t.row("  memory", got["memory"], size, f"of it anonymous: {size(got['anonymous'])}")


def part_rest(b):
    duration = 1 if b.o.quick else 30
    why = why_not()
    if why:
        note(f"rest: SKIPPED the network's bytes: {why}")
    space = None if why else Namespace()
    fleet = Fleet(b, space=space, tcp=True)
    rng = random.Random(3)
    b.table.heading(f"rest: {duration} s in which nobody asks (the bundled model)")
    for name, shared in ("alone", False), ("with PostgreSQL and a remote store, by TCP", True):
        note(f"rest: {name}")
        machine = fleet.machine(f"rest-{shared}", b.bundled("q4_0"), space=space, pool=64 << 20)
        machine.start(without=() if shared else ("--store", "--remote"))
        machine.client.tell("open c")
        machine.client.say("c", 0, tokens(rng, 300, VOCABULARY["bundled"]), 2)
        machine.evict("c")
        time.sleep(duration / 10)  # what comes behind that
        got = measure(machine, space, duration)
        b.values.setdefault("rest", {})[name] = got
        rows(b.table, name, got, shared and space)
        machine.close()
    fleet.close()
