#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The chart of returns: docs/pictures/returns.json, and returns.svg drawn from it.

The parts robin (of memory) and returns (of frontends) each replace their panel of returns.json with --svg DIR, with the machine,
the date and the command, and draw the picture anew; the panel of the other part stays. What is in the picture is in the file, and the same
file gives the same picture, byte for byte (lint/docs).

usage: bars.py FOLDER     draws FOLDER/returns.svg from FOLDER/returns.json
"""
import json
import os
import sys
import time
from xml.sax.saxutils import escape

NAME = "returns"
ORDER = ("robin", "returns")  # of panels
WIDTH, LEFT, RIGHT = 760, 236, 84  # of the picture, of the labels, of the figures
BAR, GAP, HEAD, GROUP = 20, 6, 50, 14
OURS, THEIRS, INK, FAINT = "#2f6fdb", "#9aa1ab", "#1f2328", "#59636e"
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif"


def bar(group, side, values):
    """One bar: the median of some values, and how far they lie apart."""
    values = sorted(values)
    middle = values[len(values) // 2] if len(values) % 2 else (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2
    return {"group": group, "side": side, "seconds": round(middle, 4), "least": round(values[0], 4), "greatest": round(values[-1], 4)}


def machine(threads):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")
    return f"{os.cpu_count()} processors of {model}, {threads} threads"


def keep(b, part, title, bars):
    """Replaces the panel of one part in the folder of --svg, and draws all; without --svg nothing."""
    if not b.o.svg:
        return
    date = time.gmtime()
    panel = {"title": title, "machine": machine(b.threads), "date": f"{date.tm_mday} {time.strftime('%B %Y', date)}",
             "command": f"tools/bench {b.o.what} --only {part}{' --quick' if b.o.quick else ''}{' --peer-root DIR' if b.o.peer_root else ''} --svg docs/pictures",
             "bars": bars}
    folder = b.o.svg
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME + ".json")
    data = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    data[part] = panel
    with open(path, "w", encoding="utf-8") as f:
        json.dump({name: data[name] for name in ORDER if name in data}, f, indent=1, ensure_ascii=False)
        f.write("\n")
    draw(folder)


def draw(folder):
    with open(os.path.join(folder, NAME + ".json"), encoding="utf-8") as f:
        data = json.load(f)
    with open(os.path.join(folder, NAME + ".svg"), "w", encoding="utf-8") as f:
        f.write(picture(data))


def figure(seconds):
    return f"{seconds:.1f} s" if seconds >= 9.995 else f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def text(x, y, words, size=13, colour=INK, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}"{more}>{escape(words)}</text>'


def picture(data):
    longest = max(one.get("greatest", one["seconds"]) for panel in data.values() for one in panel["bars"])
    scale = (WIDTH - LEFT - RIGHT) / longest
    body, y = [text(20, 32, "Time to the first token of a return, in seconds; shorter is better", 16, INK, ' font-weight="600"')], 42
    for panel in data.values():
        body.append(text(20, y + 24, panel["title"], 13.5, INK, ' font-weight="600"'))
        body.append(text(20, y + 41, f"{panel['machine']}, {panel['date']}", 11.5, FAINT))
        y += HEAD
        group = None
        for one in panel["bars"]:
            if one["group"] != group:
                group = one["group"]
                body.append(text(20, y + GROUP + 6, group, 12.5, FAINT))
                y += GROUP + 14
            body += row(y, one, scale)
            y += BAR + GAP
        y += 12
    height = y + 8
    words = "; ".join(f"{panel['title']}, {one['group']}: {one['side']} {figure(one['seconds'])}"
                      for panel in data.values() for one in panel["bars"])
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        f' font-family="{FONT}">',
        "<title>Time to the first token of a return: confab beside llama-server</title>", f"<desc>{escape(words)}</desc>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>', *body, "</svg>", ""])


def row(y, one, scale):
    is_ours = one["side"].startswith("confab")
    middle, width = y + BAR / 2, max(1.5, one["seconds"] * scale)
    yield text(LEFT - 10, middle + 4.5, one["side"], 13, INK, ' text-anchor="end"')
    yield f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{OURS if is_ours else THEIRS}"/>'
    end = LEFT + width
    if "least" in one and one["greatest"] > one["least"]:
        low, high = LEFT + one["least"] * scale, LEFT + one["greatest"] * scale
        yield f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8" stroke="{INK}" fill="none"/>'
        end = max(end, high)
    yield text(end + 8, middle + 4.5, figure(one["seconds"]), 13, INK, ' font-weight="600"' if is_ours else "")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[2])
    draw(sys.argv[1])
