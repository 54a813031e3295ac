# SPDX-License-Identifier: MIT
"""Figures as text, and the table of tools/bench."""

import statistics
import sys


def note(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    sys.exit(f"bench: {text}")


# --- figures as text ---

def seconds(v):
    for unit, factor in ("s", 1), ("ms", 1e-3), ("us", 1e-6):
        if v >= factor:
            return f"{v / factor:.3g} {unit}" if v / factor < 1000 else f"{v / factor:.0f} {unit}"
    return f"{v * 1e9:.0f} ns"


def size(v):
    for unit, factor in ("GB", 1e9), ("MB", 1e6), ("kB", 1e3):
        if abs(v) >= factor:
            return f"{v / factor:.3g} {unit}" if v / factor < 1000 else f"{v / factor:.0f} {unit}"
    return f"{v:.0f} B"


def speed(v):
    return f"{v / 1e9:.2f} GB/s"


def times(v):
    return f"{v:.0f} x" if v >= 100 else f"{v:.1f} x" if v >= 10 else f"{v:.2f} x"


def spread(values, form):
    return f"{form(min(values))} .. {form(max(values))}" if len(values) > 1 else ""


class Grid:
    """A table of words with columns of its own."""

    def __init__(self, *head):
        self.rows = [head]

    def row(self, *cells):
        self.rows.append(cells)

    def lines(self):
        width = [max(len(row[i]) for row in self.rows) for i in range(len(self.rows[0]))]
        return ["  ".join(cell.ljust(w) for cell, w in zip(row, width)).rstrip() for row in self.rows]


class Table:
    """Rows of (what, value, spread, against, ratio, aim) under headings."""

    HEAD = ("", "median", "least .. greatest", "against", "ratio", "aim")

    def __init__(self):
        self.rows = []

    def heading(self, text):
        self.rows.append(text)

    def row(self, what, values, form, against="", ratio="", aim=""):
        values = values if isinstance(values, list) else [values]
        self.rows.append((what, form(statistics.median(values)), spread(values, form), against, ratio,
                          aim))

    def text(self, what, against="", ratio="", aim=""):
        """A row without a value of its own: more of what the row above is compared with."""
        self.rows.append((what, "", "", against, ratio, aim))

    def grid(self, grid):
        self.rows.append(grid)

    def print(self):
        rows = [self.HEAD] + [r for r in self.rows if isinstance(r, tuple)]
        width = [max(len(r[i]) for r in rows) for i in range(len(self.HEAD))]
        line = "  ".join(f"{{:<{w}}}" for w in width)
        print(line.format(*self.HEAD).rstrip())
        for r in self.rows:
            if isinstance(r, Grid):
                print("\n".join(r.lines()))
            else:
                print(f"\n{r}" if isinstance(r, str) else line.format(*r).rstrip())


def median(values):
    return statistics.median(values)
