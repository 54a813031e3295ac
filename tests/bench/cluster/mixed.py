# SPDX-License-Identifier: MIT
"""tools/bench cluster, part throughput: one, two and three daemons under the same mixed load.

Twelve users with a conversation each ask without a pause: a first prompt of 300 tokens, then questions of 25, replies of 16, and
after ten of them a new conversation. One request in ten goes to another machine than the one before, and the next ones stay there. Each
daemon has one thread, which is pinned to one of the given processors, in turn; so three daemons on two processors share
one of them. PostgreSQL, the server of memory and the clients have no processors of their own: what they take is
missing to the daemons. More kinds are of one daemon: with its register in a file and without a remote store, which tells what both
cost, and with a thread on each processor.

A request that is refused (moved: the other machine did not give the conversation up within three seconds) is made again, and takes as long
as all of its tries.

Kinds take turns, each second time backwards. Nothing is drafted (--speculation off), as replies of random weights repeat
themselves. Tokens are those of prompts that were said and of replies; those that a machine had to compute again, or read, are not
counted.
"""

import os
import random
import statistics
import threading
import time

from fleet import Client, Fleet
from report import Grid, fail, note, seconds
from rig import VOCABULARY, cell, percentile, tokens, user

USERS, FIRST, QUESTION, REPLY, TURNS, MOVES = 12, 300, 25, 16, 10, 0.1


class Person:
    """A user with one conversation at a time, who is at one machine most of the time."""

    def __init__(self, b, machines, number, vocabulary):
        self.machines, self.vocabulary, self.number = machines, vocabulary, number
        self.rng = random.Random(number)
        self.clients = [Client(b, machine.socket, user(number)) for machine in machines]
        self.at = number % len(machines)
        self.asked = []  # (sent, seconds to the first token, seconds, tokens, whether the conversation moved)
        self.refused, self.failed = 0, None

    def one(self, name, turn):
        """One request, maybe elsewhere."""
        there = len(self.machines) > 1 and turn > 0 and self.rng.random() < MOVES
        if there:
            self.at = self.rng.choice([i for i in range(len(self.machines)) if i != self.at])
        prompt = tokens(self.rng, FIRST if turn == 0 else QUESTION, self.vocabulary)
        begun = sent = time.monotonic()
        while "error" in (got := self.clients[self.at].say(name, 2 * turn, prompt, REPLY, passes=("moved",))):
            self.refused += 1
            sent = time.monotonic()
        self.asked.append((begun, sent - begun + got["first"], sent - begun + got["total"], len(prompt) + REPLY, there))

    def play(self, until):
        try:
            k = 0
            while not self.asked or time.monotonic() < until:
                name = f"mixed-{self.number}-{k}"
                self.clients[self.at].tell(f"open {name}")
                for turn in range(TURNS):
                    if not self.asked or time.monotonic() < until:
                        self.one(name, turn)
                self.clients[self.at].tell(f"close {name}")
                k += 1
        except (SystemExit, OSError, ValueError) as e:  # a thread's own end would go unnoticed
            self.failed = e

    def close(self):
        for client in self.clients:
            client.close()


def summary(asked, begin, duration):
    """Of [(sent, first, total, tokens, moved)]: what ended within the time. The beginning, a quarter, is left out: all first prompts
    are computed there. If nothing else ended (a short time on a busy machine) it is all, until the end of the last one."""
    begin, end = begin + duration / 4, begin + duration
    counted = [a for a in asked if begin <= a[0] + a[2] <= end]
    if not counted:
        counted, begin, end = asked, begin - duration / 4, max(a[0] + a[2] for a in asked)
    return {"tokens": sum(a[3] for a in counted) / (end - begin), "requests": len(counted) / (end - begin),
            "first": [a[1] for a in counted if not a[4]], "moved": [a[1] for a in counted if a[4]]}


def play(b, machines, vocabulary, duration):
    people = [Person(b, machines, i, vocabulary) for i in range(USERS)]
    begin = time.monotonic()
    threads = [threading.Thread(target=person.play, args=(begin + duration,), daemon=True) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for person in people:
        if person.failed:
            fail(f"throughput: {person.failed}")
    for person in people:
        person.close()
    return summary([a for person in people for a in person.asked], begin, duration) | {"refused": sum(p.refused for p in people)}


def run(b, fleet, model, vocabulary, kind, cores, duration):
    """One kind, with new state folders."""
    count, without, threads = kind
    machines = []
    for i in range(count):
        own = cores if threads > 1 else [cores[i % len(cores)]]
        machine = fleet.machine(f"mixed{i}", model, cores=own, threads=threads, pool=1 << 30, flags=["--speculation", "off"])
        machine.start(without=without)
        machines.append(machine)
    got = play(b, machines, vocabulary, duration)
    for machine in machines:
        machine.close()
    return got


def pair(values):
    return (seconds(statistics.median(values)), seconds(percentile(values, 0.99))) if values else ("-", "-")


def table(b, kinds, runs):
    grid = Grid("", "tokens/s", "requests/s", "first token: p50", "p99", "of moved ones: p50", "p99", "of", "refused")
    for name in kinds:
        all_ = runs[name]
        first, moved = ([v for r in all_ for v in r[key]] for key in ("first", "moved"))
        grid.row(name, cell([r["tokens"] for r in all_], lambda v: f"{v:.0f}"),
                 cell([r["requests"] for r in all_], lambda v: f"{v:.1f}"),
                 *pair(first), *pair(moved),
                 str(len(first) + len(moved)), str(sum(r["refused"] for r in all_)))
    b.table.grid(grid)


def part_throughput(b):
    quick = b.o.quick
    cores = b.o.cores or sorted(os.sched_getaffinity(0))
    shape = b.o.shape or "60m"
    model, text, vocabulary = ((b.bundled("q4_0"), "the bundled model", VOCABULARY["bundled"]) if quick else
                               (b.model(shape, "q4_0"), f"shape {shape}, q4_0", 32000))
    duration, runs = (1, 1) if quick else (16, min(b.o.runs, 3))
    where = lambda n: ", ".join(str(cores[i % len(cores)]) for i in range(n))
    one = f"1 daemon on processor {where(1)}"
    kinds = {f"{one}, register in a file, no remote store": (1, ("--store", "--remote"), 1),
             f"{one}, no remote store": (1, ("--remote",), 1)}
    for n in (1, 2) if quick else (1, 2, 3):
        kinds[f"{n} daemon{'s' if n > 1 else ''} on processor{'s' if n > 1 else ''} {where(n)}"] = (n, (), 1)
    if len(cores) > 1 and not quick:
        kinds[f"1 daemon with {len(cores)} threads, on {', '.join(map(str, cores))}"] = (1, (), len(cores))
    fleet = Fleet(b)
    got = {name: [] for name in kinds}
    for i in range(runs):
        for name, kind in list(kinds.items())[::1 if i % 2 == 0 else -1]:
            note(f"throughput: {name}, run {i + 1} of {runs}")
            got[name].append(run(b, fleet, model, vocabulary, kind, cores, duration))
    fleet.close()
    b.values["throughput"] = got
    users = "uids" if os.geteuid() == 0 else "tenants"
    b.table.heading(f"throughput: {USERS} users ({users}), {100 * MOVES:.0f} % of requests at another machine; {text}; {runs} runs of"
                    f" {duration} s each; servers and clients run on the same {os.cpu_count()} processors")
    table(b, kinds, got)
