# SPDX-License-Identifier: MIT
"""tools/bench kernels: each product and each attention against its roof, and against the generic kernel.

The roof of a call is the longer one of two times: of reading its weights (or keys and values) at the bandwidth that
all threads together have, measured in the same run, and of its products by a loop of the kernel's instructions that
touches registers alone (tests/bench/roof). A share of 100% says: nothing is to be had without other instructions or
fewer bytes. A type with a star is repacked (kern_repack()). The generic kernel is compared by its products a second, on fewer rows.
"""

import re

from report import Grid, speed

# Types whose products of int8 do not fit sums of 16 bits: their weights have 8 bits.
WIDE = {"Q8_0", "IQ4_NL", "IQ4_XS", "MXFP4"}
FLOAT = {"F32", "F16", "BF16"}


class Figures:
    """The lines of bench-kernels, taken apart."""

    def __init__(self, got):
        self.read = got["read"][0]
        self.loops, self.matmul, self.attention = {}, {}, {}
        for name, values in got.items():
            word = name.split()
            if word[0] == "loop":
                self.loops.setdefault(word[1], {})[word[2]] = (" ".join(word[3:]), values[0])
            elif word[0] == "matmul":
                self.matmul.setdefault(word[1], {}).setdefault(word[2], {})[int(word[5])] = values
            elif word[0] == "attention":
                what = f"{word[2]}, {word[3]}/{word[4]} of {word[5]}"
                self.attention.setdefault(word[1], {}).setdefault(what, {})[int(word[7])] = values

    def loop(self, isa, kind):
        """Products a second of the loop that a kernel of this kind has; None without one."""
        have = self.loops.get(isa, {})
        unit = "multiply" if kind in FLOAT else "dot" if "dot" in have else "wide" if kind in WIDE else "narrow"
        return have[unit][1] if unit in have else None

    def share(self, isa, kind, values):
        time, size, products = values
        loop = self.loop(isa, kind)
        return max(size / self.read, products / loop if loop else 0) / time


def rate(values):
    return values[2] / values[0]


def put(t, figures, isa, title, rows, generic, kind_of):
    tokens = sorted(next(iter(rows.values())))
    # The generic kernels are measured with fewer numbers of tokens.
    against = sorted(set(tokens) & set(next(iter(generic.values())))) if generic else []
    grid = Grid(title, "1: GB/s", *(f"{n}: G/s" for n in tokens if n > 1), *(f"{n}: generic" for n in against))
    for what, row in rows.items():
        size = row[1][1] / row[1][0]
        cells = [f"{size / 1e9:.1f} ({figures.share(isa, kind_of(what), row[1]):.0%})"]
        cells += [f"{rate(row[n]) / 1e9:.0f} ({figures.share(isa, kind_of(what), row[n]):.0%})"
                  for n in tokens if n > 1]
        cells += [f"{rate(row[n]) / rate(generic[what.rstrip('*')][n]):.0f} x" for n in against]
        grid.row(what, *cells)
    t.heading(f"{title}, {isa}: of one token bytes a second, of more products a second (the share of the roof);"
              " times as fast as generic" if against else
              f"{title}, {isa}: of one token bytes a second, of more products a second (the share of the roof)")
    t.grid(grid)


def part_kernels(b):
    quick = b.o.quick
    got = b.measure("kernels", "kernels", b.threads, 0.001 if quick else 0.1, *(["quick"] if quick else []))
    figures = Figures(got)
    t = b.table
    t.heading(f"roofs, {b.threads} threads")
    grid = Grid("", "")
    grid.row("read from memory", speed(figures.read))
    for isa, loops in figures.loops.items():
        for name, value in loops.values():
            grid.row(f"{isa}: {name}", f"{value / 1e9:.0f} G products/s")
    t.grid(grid)
    for isa, types in figures.matmul.items():
        if isa != "generic" and b.o.isa in (None, isa):
            put(t, figures, isa, "matmul", types, figures.matmul.get("generic"),
                lambda what: what.rstrip("*"))
            put(t, figures, isa, "attention", figures.attention[isa], figures.attention.get("generic"),
                lambda what: "F32")
