# SPDX-License-Identifier: MIT
"""tools/bench peer, part load: the real programs, from their start to the first token, and the most memory they had.

The model file is in the page cache. confab starts twice in each run: with an empty state folder, where it reads the whole
file for the fingerprint, and again, when the register knows it. llama-server starts with its weights repacked and
without; the time is compared with the faster one, the memory with the repacked one. The peak is that of resident memory
after a prompt and a reply, the mapped model file included.
"""

import random
import time

from players import Confab
from report import median, note, seconds, size
from root import Server, peak_memory

POOL = 1 << 30
CONTEXT = 4096
REPACKED, PLAIN = "repacked", "--no-repack"


def part_load(b, root, grid):
    quick = b.o.quick
    shape, quant = ("tiny", "q8_0") if quick else ("llama-1b", "q4_0")
    model = b.model(shape, quant)
    with open(model, "rb") as f:
        while f.read(1 << 24):
            pass
    plan = {"first": 16, "prompt": 64 if quick else 512, "reply": 4 if quick else 32,
            "vocab": 320 if quick else 128256}
    got = {}
    for run in range(b.o.runs):
        note(f"load: run {run + 1} of {b.o.runs}")
        sides = [lambda: play_confab(b, model, plan, got)]
        if root:
            sides += [lambda: play_peer(b, root, model, plan, got, REPACKED, []),
                      lambda: play_peer(b, root, model, plan, got, PLAIN, ["--no-repack"])]
        for side in sides if run % 2 == 0 else reversed(sides):
            side()
    b.values["load"] = got
    put_all(grid, f"{shape} {quant}", got, plan)


def tokens(n, plan, seed):
    r = random.Random(seed)
    return [r.randrange(300, plan["vocab"]) for _ in range(n)]


def play_confab(b, model, plan, got):
    t0 = time.monotonic()
    confab = Confab(b, "load", model, POOL)
    for name in "first-start", "later-start":
        if name == "later-start":
            confab.stop()
            t0 = time.monotonic()
            confab.start()
        confab.open(name)
        confab.say(name, None, tokens(plan["first"], plan, 1), 1)
        got.setdefault(name, []).append(time.monotonic() - t0)
    confab.open("long")
    confab.say("long", None, tokens(plan["prompt"], plan, 2), plan["reply"])
    got.setdefault("peak", []).append(peak_memory(confab.daemon.pid))
    confab.close()


def play_peer(b, root, model, plan, got, name, more):
    t0 = time.monotonic()
    server = Server(b, root, model, {}, CONTEXT, more)
    server.complete(tokens(plan["first"], plan, 1), 1)
    got.setdefault(f"peer {name}", []).append(time.monotonic() - t0)
    server.complete(tokens(plan["prompt"], plan, 2), plan["reply"])
    got.setdefault(f"peer {name} peak", []).append(server.peak())
    server.close()


def put_all(grid, title, got, plan):
    best = None
    if f"peer {PLAIN}" in got:
        best = min((REPACKED, PLAIN), key=lambda name: median(got[f"peer {name}"]))
    for name, what in ("later-start", "load to the first token"), ("first-start", "  the same, a file not seen before"):
        put(grid, f"{title}, {what}" if name == "later-start" else what, got[name],
            got[f"peer {best}"] if best else None, seconds, ">= 1" if name == "later-start" else "", best)
    put(grid, f"{title}, peak memory, {plan['prompt']} + {plan['reply']} tokens", got["peak"],
        got[f"peer {REPACKED} peak"] if best else None, size, ">= 1", REPACKED)
    if best:
        put(grid, "  the same", got["peak"], got[f"peer {PLAIN} peak"], size, "", PLAIN)


def put(grid, what, ours, theirs, form, aim, setting):
    if not theirs:
        grid.row(what, form(median(ours)), "-", "-", "", aim, "")
        return
    ratios = [t / o for o, t in zip(ours, theirs)]
    grid.row(what, form(median(ours)), form(median(theirs)), f"{median(ratios):.2f}",
             f"{min(ratios):.2f} .. {max(ratios):.2f}", aim, setting)
