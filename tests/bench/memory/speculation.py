# SPDX-License-Identifier: MIT
"""The part `speculation` of tools/bench memory: tokens per second with drafts and without."""

import os
import shutil

from report import median, times

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CODE = os.path.join(ROOT, "lib", "engine", "run", "sched.c")
PROSE = os.path.join(ROOT, "docs", "protocol.md")


def rate(v):
    return f"{v:.1f} tokens/s" if v < 1000 else f"{v:.0f} tokens/s"


def percent(v):
    return f"{100 * v:.0f} %"


def part_speculation(b):
    quick = b.o.quick
    small = b.bundled("q8_0")
    big = small if quick else b.model("llama-1b", "q4_0")
    shape = "the bundled model" if quick else "shape llama-1b, Q4_0"
    # key, what, model, kind, file, lines of it, tokens of a chunk, chunks
    plans = [("edit", f"a text of 500 lines is said again, edited ({shape})", big, "edit", CODE,
              60 if quick else 500, 16 if quick else 64, 2 if quick else 7),
             ("prose", f"a text goes on ({shape})", big, "prose", PROSE,
              10 if quick else 60, 16 if quick else 64, 2 if quick else 7),
             ("chat", "plain chat (the bundled model, its own replies)", small, "chat", "-", 0,
              40 if quick else 200, 2 if quick else 31)]
    b.table.heading("speculation: a reply's tokens per second with drafts, and without")
    for key, text, model, kind, file, lines, chunk, repeat in plans:
        folder = b.folder("speculation")
        got = b.measure(f"speculation.{key}", "speculate", model, kind, file, lines, chunk, repeat, folder)
        shutil.rmtree(folder, ignore_errors=True)
        off = median(got["off"])
        b.table.row(text, got["on"], rate, f"without: {rate(off)}", times(median(got["on"]) / off),
                    ">= 1 x")
        b.table.row("  tokens of the reply that were drafted", got["accepted"][0], percent)
        b.table.row("  drafted tokens that held", got["held"][0], percent)
