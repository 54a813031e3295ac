# SPDX-License-Identifier: MIT
"""tools/bench growth: how cost grows with depth, with streams, and with the number of conversations that are kept.

  depths          a step of one stream behind so many tokens, and 32 new tokens there (bench-peer)
  streams         all tokens a second of so many streams, and how long each of them waits for its next one
  conversations   a return to one of so many conversations, through the engine, with a model so small that computing
                  counts little (bench-growth)

With --svg a picture of each is drawn into the folder.
"""

import shutil

from compare import ConfabSide
from plot import Chart, draw, tool
from report import median, note, seconds

DEPTHS = (0, 1024, 2048, 4096, 8192, 16384, 32768)
STREAMS = (1, 2, 4, 8, 16, 32, 64)
COUNTS = (10, 30, 100, 300, 1000, 3000, 10000)
ONTO = 32
BEHIND = 128  # tokens behind which the streams go on


def point(x, values, factor):
    return x, median(values) * factor, min(values) * factor, max(values) * factor


def finish(b, chart):
    if not b.o.svg:
        return
    how = tool()
    if not how:
        note("growth: no picture: neither python3-matplotlib nor gnuplot is here")
        return
    note(f"growth: {draw(chart, b.o.svg, how)} by {how}")


def repeated(b, confab, *test):
    return [confab.measure(test) for _ in range(b.o.runs)]


def shape(b):
    return ("tiny", "q8_0") if b.o.quick else ("llama-1b", "q4_0")


def part_depths(b):
    depths, steps = ((0, 64, 128), 2) if b.o.quick else (DEPTHS, 16)
    confab = ConfabSide(b, b.model(*shape(b)), depths[-1] + 64)
    title = f"shape {shape(b)[0]}, {shape(b)[1]}, {confab.facts['isa']}, {b.threads} threads"
    chart = Chart("growth-depth", title, "tokens before", "milliseconds")
    b.table.heading(f"depths: {title}")
    repeated(b, confab, "depth", 0, steps)
    for depth in depths:
        step = [s / steps for s in repeated(b, confab, "depth", depth, steps)]
        onto = repeated(b, confab, "onto", depth, ONTO)
        b.values.setdefault("depths", {})[depth] = {"step": step, "onto": onto}
        b.table.row(f"behind {depth} tokens: one token", step, seconds)
        b.table.row(f"  {ONTO} tokens in one step", onto, seconds)
        chart.add("one token", point(depth, step, 1e3))
        chart.add(f"{ONTO} new tokens in one step", point(depth, onto, 1e3))
    confab.close()
    finish(b, chart)


def part_streams(b):
    streams, steps = ((1, 2, 4), 2) if b.o.quick else (STREAMS, 8)
    behind = 32 if b.o.quick else BEHIND
    confab = ConfabSide(b, b.model(*shape(b)), streams[-1] * (behind + steps + 2))
    title = f"shape {shape(b)[0]}, {shape(b)[1]}, {confab.facts['isa']}, {b.threads} threads"
    chart = Chart("growth-streams", title, "streams at once", "tokens a second", logarithmic=True)
    b.table.heading(f"streams: {title}, behind {behind} tokens each")
    for n in streams:
        step = [s / steps for s in repeated(b, confab, "streams", n, behind, steps)]
        b.values.setdefault("streams", {})[n] = {"step": step}
        b.table.row(f"{n} streams: a step", step, seconds, f"{n / median(step):.0f} tokens/s in all")
        chart.add("all together", point(n, [n / s for s in step], 1))
        chart.add("each", point(n, [1 / s for s in step], 1))
    confab.close()
    finish(b, chart)


def part_conversations(b):
    counts, repeat = ((5, 10), 3) if b.o.quick else (COUNTS, 101)
    quant = "q8_0"
    state = b.folder("growth")
    got = b.measure("conversations", "growth", b.model("tiny-256", quant), state, b.threads, repeat,
                    ",".join(map(str, counts)))
    shutil.rmtree(state)
    title = f"shape tiny-256, {quant}, {b.threads} threads, all in RAM"
    chart = Chart("growth-conversations", title, "conversations kept", "milliseconds", logarithmic=True)
    b.table.heading(f"conversations: {title}")
    for n in counts:
        for name, what in ("first", "return: first token"), ("turn", "  its end, which is durable"):
            values = got[f"{name}.{n}"]
            b.table.row(f"{n} kept, {what}" if name == "first" else what, values, seconds)
            low, high = quartiles(values)
            chart.add(what.strip(), (n, median(values) * 1e3, low * 1e3, high * 1e3))
    finish(b, chart)


def quartiles(values):
    values = sorted(values)
    return values[len(values) // 4], values[(3 * len(values)) // 4]


GROWTH_PARTS = {"depths": part_depths, "streams": part_streams, "conversations": part_conversations}
