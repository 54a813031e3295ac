# SPDX-License-Identifier: MIT
"""tools/bench service, part map: what `confab map` takes, beside a program that does nothing but pipeline Fork, Continue and
Close on one connection (bench-pipeline).

A document of about 1,000 tokens is said to the bundled model once. Then each side, in turn, asks 200 short questions
about it, 16 at once, with replies of 16 tokens. Both start as new processes; both times are from the first connection
to the last answer, that of map with the program's start and end. The ratio is the median of the ratios of neighbouring
runs; the aim is at most 1.3.
"""

import subprocess
import time

from report import fail, median, note, seconds, times
from rig import Daemon

JOBS, REPLY = 16, 16


def document():
    facts = [f"The key of room {i} hangs on hook {i * 7 % 40}, and its window looks to the {side}."
             for i, side in zip(range(1, 41), ["north", "east", "south", "west"] * 10)]
    return "Here is what the house is like. " + " ".join(facts)


def run(args, text):
    p = subprocess.run(list(map(str, args)), input=text, text=True, stdout=subprocess.PIPE, check=False)
    if p.returncode != 0:
        fail(f"map: {args[0]} ended with status {p.returncode}")
    return p.stdout


def part_map(b):
    questions, runs = (20, 2) if b.o.quick else (200, b.o.runs)
    note(f"map: {questions} questions")
    daemon = Daemon(b, "map", b.bundled("q8_0"), pool=512 << 20, flags=["--disk-floor", 0])
    daemon.start()
    confab = [b.program("confab"), "--socket", daemon.socket]
    run([*confab, "open", "house"], "")
    run([*confab, "say", "house", "--max-tokens", 0, "-"], document())
    shown = run([*confab, "ls"], "").splitlines()[1].split()
    asked = "".join(f"Where is the key of room {i % 40 + 1}? ({i})\n" for i in range(questions))
    plain, mapped = [], []
    for _ in range(runs + 1):
        plain.append(float(run([b.program("pipeline"), daemon.socket, "house", questions, JOBS, REPLY], asked)))
        begun = time.monotonic()
        answers = run([*confab, "map", "house", "--jobs", JOBS, "--max-tokens", REPLY, "--ignore-eos", "--json"], asked)
        mapped.append(time.monotonic() - begun)
        if answers.count('"finish":"length"') != questions:
            fail("map: not all questions were answered")
    plain, mapped = plain[1:], mapped[1:]  # the first round warms both
    b.values["map"] = {"pipelined": plain, "map": mapped}
    b.table.heading(f"map: {questions} questions over {shown[3]} tokens, {JOBS} at once, replies of {REPLY} tokens (the bundled model)")
    b.table.row("pipelined on one connection", plain, seconds)
    b.table.row("confab map --json", mapped, seconds, f"pipelined: {seconds(median(plain))}",
                times(median([m / p for m, p in zip(mapped, plain)])), "<= 1.3 x")
    daemon.close()
