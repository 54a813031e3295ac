# SPDX-License-Identifier: MIT
"""tools/bench service, part fairness: five users at once, one of them greedy.

The greedy user has eight streams of long prompts and replies, without a pause; each of the four others asks one short
question after the other. Every prompt is drawn at random, so nothing is shared or found again. First the greedy user and one
of the others run alone, then all five together, for as long. Work is tokens a second, of prompts and replies; a request
that reaches over an end of the time counts with the part of it that lies within. Jain's index is that of the five users'
work together over their work alone: 1 if all of them are slowed down alike, 0.2 if one has everything.

confabd drafts nothing (--speculation off): replies of random weights repeat themselves, as those of real ones do not, and a user
alone would have four tokens of each step. llama-server has no drafts either unless it is told to.

With root the users are five uids, else tenants. llama-server knows no users: there they are twelve connections, with a
slot for each.
"""

import json
import os
import random
import statistics
import subprocess
import threading
import time

from report import Grid, fail, note, seconds
from rig import VOCABULARY, Daemon, cell, percentile, say_skipped, tokens, user
from sides import Server, Stopwatch
from wire import request

USERS = 5
GREEDY = {"streams": 8, "prompt": 300, "reply": 32}
SHORT = {"streams": 1, "prompt": 25, "reply": 16}
SLOT = 1024


class Asked:
    """A request that was answered: when (seconds of time.monotonic()), and its tokens."""

    def __init__(self, sent, first, ended, plan):
        self.sent, self.first, self.ended, self.plan = sent, first, ended, plan

    def work(self, begin, end):
        """(tokens of prompt and reply, of the reply alone) between begin and end, if computed evenly."""
        prompt = self.plan["prompt"] * overlap(self.sent, self.first, begin, end)
        reply = self.plan["reply"] * overlap(self.first, self.ended, begin, end)
        return prompt + reply, reply


def overlap(a, b, begin, end):
    """The part of [a, b] that lies in [begin, end]."""
    if b <= a:
        return 1.0 if begin <= a <= end else 0.0
    return max(0.0, min(b, end) - max(a, begin)) / (b - a)


class NativeStream:
    """A user's connection to confabd (bench-say), with a conversation whose turns each question replaces: so a question is one
    request, as it is for llama-server."""

    def __init__(self, b, daemon, number, i):
        self.name = f"stream-{i}"
        self.client = subprocess.Popen([b.program("say"), daemon.socket, user(number)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.tell(f"open {self.name}")

    def tell(self, line):
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()
        got = json.loads(self.client.stdout.readline())
        if "error" in got:
            fail(f"fairness: {line.split()[0]}: {got['error']}")
        return got

    def ask(self, prompt, plan):
        sent = time.monotonic()
        got = self.tell(f"say-at {self.name} 0 {plan['reply']} {' '.join(map(str, prompt))}")
        return Asked(sent, sent + got["first"], sent + got["total"], plan)

    def close(self):
        self.tell(f"close {self.name}")
        self.client.communicate("quit\n")


class LlamaStream:
    """A client of llama-server (bench-http)."""

    def __init__(self, b, server, _number, _i):
        self.client = Stopwatch(b, server)

    def ask(self, prompt, plan):
        data = request("POST", "/completion", {"prompt": prompt, "n_predict": plan["reply"], "temperature": 0,
                                               "ignore_eos": True, "stream": True})
        sent = time.monotonic()
        first, answer = self.client.ask(data)
        ended = time.monotonic()
        if answer.status != 200 or answer.error:
            fail(f"fairness: llama-server: {answer.status} {answer.error}")
        return Asked(sent, sent + first, ended, plan)

    def close(self):
        self.client.close()


class User:
    def __init__(self, number, plan, vocabulary):
        self.number, self.plan, self.vocabulary = number, plan, vocabulary
        self.asked = []  # of all streams
        self.failed = None  # what ended one of them

    def play(self, stream, seed, until):
        rng = random.Random(seed)
        try:
            while time.monotonic() < until:
                self.asked.append(stream.ask(tokens(rng, self.plan["prompt"], self.vocabulary), self.plan))
        except (SystemExit, OSError, ValueError) as e:  # a thread's own end would go unnoticed
            self.failed = e


def play(b, side, kind, users, duration):
    """All users at once: {number: (work a second, tokens of replies a second, seconds to first tokens)}."""
    streams = [(u, kind(b, side, u.number, i)) for u in users for i in range(u.plan["streams"])]
    begin = time.monotonic()
    end = begin + duration
    threads = [threading.Thread(target=u.play, args=(stream, f"{begin} {i}", end), daemon=True) for i, (u, stream) in enumerate(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for u in users:
        if u.failed:
            fail(f"fairness: {u.failed}")
    for _, stream in streams:
        stream.close()
    got = {}
    for u in users:
        work = [a.work(begin, end) for a in u.asked]
        if not work:
            fail("fairness: a user got no answer")
        got[u.number] = {"work": sum(w for w, _ in work) / duration, "reply": sum(r for _, r in work) / duration,
                         "first": [a.first - a.sent for a in u.asked]}
    return got


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


def round_of(b, side, kind, vocabulary, duration):
    make = lambda number: User(number, GREEDY if number == 0 else SHORT, vocabulary)
    alone = play(b, side, kind, [make(0)], duration / 2) | play(b, side, kind, [make(1)], duration / 2)
    together = play(b, side, kind, [make(i) for i in range(USERS)], duration)
    kept = [together[i]["work"] / alone[min(i, 1)]["work"] for i in range(USERS)]
    return {"alone": alone, "together": together, "kept": kept, "jain": jain(kept)}


def rows(grid, name, runs):
    grid.row(f"{name}:", *[""] * 8)
    for what, numbers in ("greedy: 8 streams", [0]), ("each of 4 others", range(1, USERS)):
        alone = [run["alone"][min(numbers[0], 1)] for run in runs]
        together = [run["together"][i] for run in runs for i in numbers]
        first = {key: [v for got in which for v in got["first"]] for key, which in (("alone", alone), ("together", together))}
        grid.row(f"  {what}", number([a["reply"] for a in alone]), number([a["reply"] for a in together]),
                 number([a["work"] for a in alone]), number([a["work"] for a in together]),
                 share([run["kept"][i] for run in runs for i in numbers]),
                 *(f"{seconds(statistics.median(v))}, {seconds(percentile(v, 0.99))}" for v in first.values()),
                 str(len(first["together"])))
    grid.row("  Jain's index", *[""] * 4, cell([run["jain"] for run in runs], lambda v: f"{v:.2f}"), "", "", "")


def number(values):
    return cell(values, lambda v: f"{v:.3g}")


def share(values):
    return cell(values, lambda v: f"{100 * v:.0f} %")


def part_fairness(b):
    quick, shape = b.o.quick, b.o.shape or "qwen-0.5b"
    model, text, vocabulary = ((b.bundled("q4_0"), "the bundled model", VOCABULARY["bundled"]) if quick else
                               (b.model(shape, "q4_0"), f"shape {shape}, q4_0", 32000))
    duration, runs = (1.5, 1) if quick else (12, 2)
    daemon = Daemon(b, "fairness", model, pool=2 << 30, flags=["--speculation", "off"])
    daemon.start()
    sides = [("confabd", daemon, NativeStream)]
    if b.o.peer_root:
        n = GREEDY["streams"] + USERS - 1
        server = Server(b, model, ["-np", str(n), "-c", str(n * SLOT), "-fa", "on"])
        sides.append(("llama-server, a slot for each", server, LlamaStream))
    b.table.heading(f"fairness: a greedy user with 8 streams (prompts of {GREEDY['prompt']}, replies of {GREEDY['reply']}) and 4 with"
                    f" short questions ({SHORT['prompt']}, {SHORT['reply']}); {text}; {runs} runs of {duration} s together;"
                    f" users are {'uids' if os.geteuid() == 0 else 'tenants'}")
    got = {name: [] for name, _, _ in sides}
    for run in range(runs):
        for name, side, kind in sides if run % 2 == 0 else reversed(sides):
            note(f"fairness: {name}, run {run + 1} of {runs}")
            got[name].append(round_of(b, side, kind, vocabulary, duration))
    b.values["fairness"] = got
    grid = Grid("", "reply tokens/s alone", "together", "all tokens/s alone", "together", "kept", "first token alone: p50, p99",
                "together", "of")
    for name, runs_ in got.items():
        rows(grid, name, runs_)
    b.table.grid(grid)
    if not b.o.peer_root:
        say_skipped(b, "fairness")
    for _, side, _ in sides:
        side.close()
