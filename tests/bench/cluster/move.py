# SPDX-License-Identifier: MIT
"""tools/bench cluster, part move: how soon a conversation goes on at another machine.

Two daemons share a register (PostgreSQL, by its socket) and a server of memory, which is in a network namespace behind a link that is
shaped at both ends. One has a conversation of so many tokens. The other one, which has just been started, is asked to go on
with it: one token more is said, and the time is from sending the request to the first token of the reply, at the socket. So
everything is in it: the other machine gives the conversation up, its memory comes from where it is, the end is computed.

  disk      the other machine had the conversation before: its memory is on its own disk, and not in the page cache
  remote    the other machine has nothing, and all was sent to the server before; at 10 and 1 Gbit/s, and unshaped
  computed  the other machine has nothing, and knows no server of memory
  turn      as remote, at 10 Gbit/s, but right behind a turn at the first machine, of which nothing was written or sent yet
  unsent    as remote, at 10 Gbit/s, but all of the conversation was computed a moment ago: nothing of it was written or sent yet

Runs of all kinds take turns, each second time backwards. Beside them as many bytes as are stored of the memory are sent through the same
link on a TCP connection that does nothing else. Every reply has to be the same, and memory has to come from where it should (of the
bundled model it may be computed instead: that is often faster).
"""

import random

from fleet import Fleet
from network import Network, why_not
from report import fail, median, note, seconds, size, times
from rig import VOCABULARY, cell, tokens

RATES = {"10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s", None: "unshaped"}
REPLY = 2
TURN = 25, 16  # tokens that are said, and of the reply
LEAST = 64 << 20  # bytes of a plain transfer
N_DECIDE = 12
DECIDE_TOKENS = 1000


def gigabits(v):
    return f"{v / 1e9:.2f} Gbit/s"


class Moves:
    """Conversations that go from machine one to machine two."""

    def __init__(self, b, fleet, model, vocabulary, exact):
        self.b, self.fleet, self.exact, self.vocabulary = b, fleet, exact, vocabulary
        # Each time a disk is lost, the journal says so.
        flags = ["--spill-delay", "never", "--disk-floor", 0, "--remote-write-share", 100, "--log-level", "error"]
        self.one, self.two = (fleet.machine(name, model, pool=(3 << 30) // 2, flags=flags) for name in ("one", "two"))
        self.one.start()
        self.two.start()
        self.rng = random.Random(14)
        self.name, self.n, self.prompt, self.replies = None, 0, [], {}

    def choose(self, n):
        self.name, self.n, self.replies = f"move-{n}", n, {}
        self.prompt = tokens(self.rng, n, self.vocabulary)
        self.one.client.tell(f"open {self.name}")

    def ask(self, machine, turns=2):
        got = machine.client.say(self.name, turns, self.prompt[:1], REPLY)
        was = self.replies.setdefault(turns, got["tokens"])
        if got["tokens"] != was:
            fail(f"move: {self.name}: the reply is {got['tokens']}, and was {was}")
        stats = machine.stats()
        got["blocks"], got["bytes"] = stats["remote_blocks_read"], stats["bytes_remote_read"]
        return got

    def hold(self):
        """Machine one has the conversation, on its disk, and all of it was sent. Machine two is stopped."""
        self.two.stop()
        self.ask(self.one)
        self.one.evict(self.name)

    def need(self, true, got, what):
        if self.exact and not true:
            fail(f"move: {what} of {self.n} tokens: {({k: v for k, v in got.items() if k not in ('text', 'tokens')})}")

    def unsent(self):
        self.two.stop()
        self.one.stop()
        for machine in self.one, self.two:
            machine.lose_disk()
            machine.start()
        self.fleet.forget()
        got = self.one.client.say(self.name, 0, self.prompt, REPLY)
        self.need(got["n_computed"] >= self.n, got, "computed first")
        return self.ask(self.two)

    def remote(self):
        self.hold()
        self.two.lose_disk()
        self.two.start()
        got = self.ask(self.two)
        self.need(got["n_computed"] <= 64 and got["blocks"] >= self.n // 32 - 1, got, "from the remote store")
        return got

    def turn(self):
        self.hold()
        self.two.lose_disk()
        self.two.start()
        said, reply = TURN
        self.one.client.say(self.name, 2, self.prompt[:said], reply)
        return self.ask(self.two, turns=4)

    def disk(self):
        self.hold()  # machine two has written what it had when it was stopped
        self.two.start()
        self.two.drop_cache()
        got = self.ask(self.two)
        self.need(got["n_computed"] <= 64 and got["blocks"] <= 4, got, "from the own disk")
        return got

    def computed(self):
        self.hold()
        self.two.lose_disk()
        self.two.start(without=["--remote"])
        got = self.ask(self.two)
        self.need(got["n_computed"] >= self.n and got["blocks"] == 0, got, "computed")
        return got


def measure(b, moves, n, n_computed):
    """{kind: [what each run has told]}, and seconds of plain transfers, by rate."""
    network = moves.fleet.network
    rates = RATES if network else {None: RATES[None]}
    got = {kind: [] for kind in ("unsent", "turn", "computed", "disk", *rates)}
    plain = {rate: [] for rate in rates}

    def shaped(rate):
        if network:
            network.shape(rate)

    moves.choose(n)
    for i in range(n_computed):
        note(f"move: {n} tokens, unsent, {i + 1} of {n_computed}")
        shaped(next(iter(rates)))
        got["unsent"].append(moves.unsent())
    for run in range(b.o.runs):
        note(f"move: {n} tokens, run {run + 1} of {b.o.runs}")
        kinds = [*rates, "disk", "turn", *(["computed"] if run < n_computed else [])]
        # The disk comes behind another one, which leaves something there.
        for kind in kinds if run % 2 == 0 else kinds[::-1]:
            if kind == "turn":
                shaped(next(iter(rates)))
            if kind not in rates:
                got[kind].append(getattr(moves, kind)())
                continue
            shaped(kind)
            came = moves.remote()
            got[kind].append(came)
            if network and came["bytes"]:
                size_ = max(came["bytes"], LEAST)
                plain[kind].append(network.transfer(size_) / size_)
    return got, plain


def rows(b, got, plain, n, block):
    t = b.table
    first = {kind: [run["first"] for run in runs] for kind, runs in got.items()}
    again = median(first["computed"])
    against = f"computed: {seconds(again)}"
    ratio = lambda kind: times(again / median(first[kind]))
    t.row(f"{n} tokens: computed, no remote store", first["computed"], seconds)
    t.row("  from its own disk", first["disk"], seconds, against, ratio("disk"))
    stored = [run["bytes"] / n for rate in plain for run in got[rate] if run["blocks"] >= n // 32 - 1]
    for rate in plain:
        aim = ">= 50 x" if n == 8192 and rate == "10gbit" else ""
        t.row(f"  from the remote store, {RATES[rate]}", first[rate], seconds, against, ratio(rate), aim)
        read_rows(t, got[rate], plain[rate])
    fast = RATES[next(iter(plain))]
    for kind, name in ("turn", f"the last turn, {sum(TURN)} tokens,"), ("unsent", "all of it"):
        t.row(f"  {name} not sent yet, {fast}", first[kind], seconds, against, ratio(kind))
        t.row("    computed tokens", [run["n_computed"] for run in got[kind]], lambda v: f"{v:.0f}")
        t.row("    of it until the conversation was here", [run["queued"] for run in got[kind]], seconds)
    if stored:
        t.row("  bytes of a token, as they are stored", stored, size, f"raw: {size(block)}", times(block / median(stored)))


def read_rows(t, runs, plain):
    """How much of the link was used, of the runs that read."""
    speeds = [8 * run["bytes"] / run["first"] for run in runs if run["blocks"]]
    if len(speeds) < len(runs):
        t.text(f"    computed instead, in {len(runs) - len(speeds)} of {len(runs)} runs")
    if speeds and plain:
        roof = 8 / median(plain)
        t.row("    stored bits a second, until the first token", speeds, gigabits, f"plain transfer: {gigabits(roof)}",
              f"{100 * median(speeds) / roof:.0f} %")
    t.row("    of it until the conversation was here", [run["queued"] for run in runs], seconds)


def decide(b, fleet, n_conversations):
    """What a daemon that runs on makes of it, where computing is fast."""
    n = DECIDE_TOKENS
    moves = Moves(b, fleet, b.bundled("q4_0"), VOCABULARY["bundled"], False)
    b.table.heading(f"move: what the daemon decides, the bundled model: {n_conversations} conversations of {n} tokens come to one"
                    " machine, one after the other")
    got = {}
    for rate in [*(RATES if fleet.network else {None: 0}), "off"]:
        if fleet.network:
            fleet.network.shape(rate if rate != "off" else None)
        moves.two.stop()
        moves.two.lose_disk()
        moves.two.start(without=["--remote"] if rate == "off" else [])
        runs = []
        for i in range(n_conversations):
            moves.name, moves.replies = f"decide-{rate}-{i}", {}
            moves.prompt = tokens(moves.rng, n, moves.vocabulary)
            moves.one.client.tell(f"open {moves.name}")
            moves.one.client.say(moves.name, 0, moves.prompt, REPLY)
            moves.ask(moves.one)
            moves.one.evict(moves.name)
            runs.append(moves.ask(moves.two))
        got[str(rate)] = runs
        b.values.setdefault("decide", {})[str(rate)] = runs
        decide_row(b.table, "no remote store" if rate == "off" else RATES[rate], runs, moves.two.stats()["remote_skipped"])
    for machine in moves.one, moves.two:
        machine.close()


def decide_row(t, name, runs, skipped):
    read = [run["first"] for run in runs if run["n_disk"]]
    computed = [run["first"] for run in runs if not run["n_disk"]]
    t.row(f"{name}: first token", [run["first"] for run in runs], seconds)
    t.text(f"  read {len(read)}: {cell(read)}; computed {len(computed)}: {cell(computed)}; remote_skipped {skipped}")


def part_move(b):
    why = why_not()
    network = None
    if why:
        note(f"move: SKIPPED the shaped link: {why}")
    else:
        network = Network()
    fleet = Fleet(b, network=network)
    quick = b.o.quick
    model, text, vocabulary = ((b.bundled("q4_0"), "the bundled model", VOCABULARY["bundled"]) if quick else
                               (b.model("llama-1b", "q4_0"), "shape llama-1b, q4_0", VOCABULARY["llama-1b"]))
    lengths = (256, 512) if quick else b.o.lengths
    moves = Moves(b, fleet, model, vocabulary, not quick)
    stats = moves.one.stats()
    b.table.heading(f"move: the first token at another machine ({text}; {b.threads} threads); one token more behind so many"
                    + (f"; no link: {why}" if why else ""))
    for n in lengths:
        got, plain = measure(b, moves, n, min(b.o.runs, 2 if n > 4096 else b.o.runs))
        b.values[f"move.{n}"] = {"runs": {str(k): v for k, v in got.items()}, "plain": {str(k): v for k, v in plain.items()}}
        rows(b, got, plain, n, stats["block_bytes"] / stats["block_tokens"])
    for machine in moves.one, moves.two:
        machine.close()
    decide(b, fleet, 2 if quick else N_DECIDE)
    fleet.close()
