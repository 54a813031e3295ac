# SPDX-License-Identifier: MIT
"""Parts of tools/bench steps: what a step of so many rows takes, and a long prompt beside replies."""

import os
import shutil

from report import Grid, median, note, seconds

STREAMS = (1, 4, 8)
SHARES = (33, 50, 67, 100) # 33: about half as long again between tokens


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


# --- the machine: rows ---

def part_rows(b):
    quick = b.o.quick
    shape, rows, depth, repeat = (("60m", "1,2,4,8,16", 64, 3) if quick else
                                  ("llama-1b", "1,2,3,4,5,6,7,8,10,12,16,24,32,48,64,96,128,256", 256, 7))
    got = b.measure("rows", "rows", b.model(b.o.shape or shape, "q4_0"), b.threads, rows, depth, repeat)
    times = {name: {int(key.rsplit(".", 1)[1]): median(v) for key, v in got.items() if key.startswith(f"rows.{name}.")}
             for name in ("prompt", "streams")}
    best = max(n / t for n, t in times["prompt"].items())
    grid = Grid("rows", "of one prompt", "rows/s", "of the best", "of as many replies", "rows/s")
    for n, t in times["prompt"].items():
        other = times["streams"].get(n)
        grid.row(str(n), seconds(t), f"{n / t:.0f}", f"{n / t / best:.0%}", seconds(other) if other else "",
                 f"{n / other:.0f}" if other else "")
    b.table.heading(f"rows: one forward call, {depth} tokens deep, {b.threads} threads")
    b.table.grid(grid)


# --- the engine: beside ---

def point(got, share, prompt):
    """What one share came to: growth of the interval, speed of the prompt, and work done."""
    alone, beside = got[f"beside.interval.alone.{share}"], got[f"beside.interval.beside.{share}"]
    speed = got["beside.prompt.alone"][0] / got[f"beside.prompt.{share}"][0]
    growth = median(beside) / median(alone)
    mean = (sum(beside) / len(beside)) / (sum(alone) / len(alone))
    return {"share": share, "alone": median(alone), "alone99": percentile(alone, 0.99), "beside": median(beside),
            "beside99": percentile(beside, 0.99), "growth": growth, "mean": mean, "speed": speed,
            "tokens": prompt / got[f"beside.prompt.{share}"][0], "work": speed + 1 / mean}


def draw(curves, path):
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("svg")
        matplotlib.rcParams["svg.hashsalt"] = "beside"  # equal figures give equal files
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError:
        note("without matplotlib no picture is drawn")
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for n, points in curves.items():
        axes.plot([p["mean"] for p in points], [100 * p["speed"] for p in points], marker="o",
                  label=f"{n} {'reply' if n == 1 else 'replies'}")
        for p in points:
            axes.annotate(str(p["share"]), (p["mean"], 100 * p["speed"]), fontsize=7, xytext=(4, -8),
                          textcoords="offset points")
    axes.axvline(1.5, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks([1, 1.5, 2, 3, 5, 10, 20, 40])
    axes.get_xaxis().set_major_formatter(matplotlib.ticker.ScalarFormatter())
    axes.set_xlabel("interval between tokens, times that without a prompt (mean)")
    axes.set_ylabel("speed of the prompt, % of alone")
    axes.set_ylim(0, 105)
    axes.legend(title="beside (numbers: prefill-share)")
    figure.tight_layout()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    note(f"{path} was drawn")


def part_beside(b):
    quick = b.o.quick
    shape, prompt, history = ("60m", 300, 16) if quick else ("llama-1b", 4000, 64)
    shape = b.o.shape or shape
    shares = (33, 100) if quick else SHARES
    model, curves = b.model(shape, "q4_0"), {}
    for n in (1,) if quick else STREAMS:
        state = b.folder("beside")
        os.makedirs(state)
        got = b.measure(f"beside.{n}", "beside", model, state, b.threads, n, history, prompt,
                        ",".join(map(str, shares)))
        shutil.rmtree(state)
        curves[n] = [point(got, share, prompt) for share in shares]
        note(f"{n} replies, mean interval and speed of the prompt: " + ", ".join(
            f"{p['share']} %: {p['mean']:.2f}, {p['speed']:.0%}" for p in curves[n]))
        grid = Grid("prefill-share", "interval alone", "p99", "beside", "p99", "growth", "mean", "prompt tokens/s",
                    "of alone", "work")
        for p in curves[n]:
            grid.row(str(p["share"]), seconds(p["alone"]), seconds(p["alone99"]), seconds(p["beside"]),
                     seconds(p["beside99"]), f"{p['growth']:.2f}", f"{p['mean']:.2f}", f"{p['tokens']:.0f}",
                     f"{p['speed']:.0%}", f"{p['work']:.2f}")
        b.table.heading(f"beside: {n} replies of one user and a prompt of {prompt} tokens (shape {shape}, Q4_0);"
                        f" the prompt alone {prompt / got['beside.prompt.alone'][0]:.0f} tokens/s;"
                        f" work: the part of its speed alone that the prompt has, and that of the replies")
        b.table.grid(grid)
        if not quick: # each time: it takes long
            draw(curves, os.path.join(b.o.svg or b.o.scratch, "beside.svg"))


STEPS_PARTS = {"rows": part_rows, "beside": part_beside}
