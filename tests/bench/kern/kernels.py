# SPDX-License-Identifier: MIT
"""tools/bench kernels: each kernel against its roof, and against the generic one.

The roof of a product or of attention is the longer one of two times: of reading its weights (or keys and values) at the
bandwidth that all threads together have, measured in the same run, and of its products by a loop of the kernel's
instructions that touches registers alone (tests/bench/roof). A share of 100% says: nothing is to be had without other
instructions or fewer bytes. A type with a star is repacked (kern_repack()). The generic kernel is compared by its products
a second, on fewer rows.

A recurrent layer's state is read and written: its bytes are held against a copy from memory to memory, and so are those of
repacking. Rows of activations lie in a cache: their bytes are held against a loop that moves as many there and does
nothing else, on one thread as the kernel; or their products against a loop of float products, whichever takes longer
(bench-kernels-rows.c says more). A cell says which one it was. That a kernel of rows is below its roof may be its order of
work, which kern.h defines: sums that go one after another, a division.
"""

from report import Grid, seconds, speed, times

# Types whose products of int8 do not fit sums of 16 bits: their weights have 8 bits.
WIDE = {"Q8_0", "IQ4_NL", "IQ4_XS", "MXFP4"}
FLOAT = {"F32", "F16", "BF16"}


class Figures:
    """The lines of bench-kernels, taken apart: values by instruction set, by what was measured, by tokens."""

    def __init__(self, got):
        self.read, self.copy = got["read"][0], got["copy"][0]
        self.loops, self.alone, self.repack = {}, {}, {}
        self.matmul, self.heads, self.attention, self.states, self.rows = {}, {}, {}, {}, {}
        for name, values in got.items():
            kind, *word = name.split()
            if kind == "loop":
                self.loops.setdefault(word[0], {})[word[1]] = (" ".join(word[2:]), values[0])
            elif kind == "alone":
                self.alone[word[0]] = values[0]
            elif kind == "repack":
                self.repack.setdefault(word[0], {})[word[1]] = values
            elif kind == "matmul":
                self.add(self.matmul, word[0], word[1], word[4], values)
            elif kind == "heads":
                self.add(self.heads, word[0], f"{word[1]}, {word[2]} of {word[3]} x {word[4]}", word[5], values)
            elif kind == "attention":
                self.add(self.attention, word[0], f"{word[1]}, {word[2]}/{word[3]} of {word[4]}", word[6], values)
            elif kind == "state":
                self.add(self.states, word[0], f"{word[1]}, {word[2]} of {word[3]} x {word[4]}", word[5], values)
            elif kind == "row":
                self.add(self.rows, word[0], f"{' '.join(word[3:])}, {word[1]} values", word[2], values)

    @staticmethod
    def add(to, isa, what, tokens, values):
        to.setdefault(isa, {}).setdefault(what, {})[int(tokens)] = values

    def loop(self, isa, kind):
        """Products a second of the loop that a kernel of this kind has; None without one."""
        have = self.loops.get(isa, {})
        unit = "multiply" if kind in FLOAT else "dot" if "dot" in have else "wide" if kind in WIDE else "narrow"
        return have[unit][1] if unit in have else None

    def share(self, isa, kind, values, bandwidth):
        time, size, products = values
        loop = self.loop(isa, kind)
        return max(size / bandwidth, products / loop if loop else 0) / time

    def row_share(self, isa, values):
        """The share of the roof of rows, and which one it is."""
        time, size, products, stream = values
        by_bytes, by_products = size / stream, products / self.alone.get(isa, float("inf"))
        if by_bytes >= by_products:
            return f"{by_bytes / time:.0%} of bytes"
        return f"{by_products / time:.0%} of products"


def rate(values):
    return values[2] / values[0]


def put(t, figures, isa, title, rows, generic, kind_of, bandwidth):
    def share(what, values):
        return f"{figures.share(isa, kind_of(what), values, bandwidth):.0%}"

    tokens = sorted(next(iter(rows.values())))
    # Some generic kernels are measured with fewer numbers of tokens.
    against = sorted(set(tokens) & set(next(iter(generic.values())))) if generic else []
    grid = Grid(title, "1: GB/s", *(f"{n}: G/s" for n in tokens if n > 1), *(f"{n}: generic" for n in against))
    for what, row in rows.items():
        cells = [f"{row[1][1] / row[1][0] / 1e9:.1f} ({share(what, row[1])})"]
        cells += [f"{rate(row[n]) / 1e9:.0f} ({share(what, row[n])})" for n in tokens if n > 1]
        cells += [f"{rate(row[n]) / rate(generic[what.rstrip('*')][n]):.0f} x" for n in against]
        grid.row(what, *cells)
    t.heading(f"{title}, {isa}: of one token bytes a second, of more products a second (the share of the roof)"
              + ("; times as fast as generic" if against else ""))
    t.grid(grid)


def put_repack(t, figures, isa, rows):
    grid = Grid("repack", "time", "GB/s")
    for what, (time, size, _) in rows.items():
        grid.row(what, seconds(time), f"{size / time / 1e9:.1f} ({size / figures.copy / time:.0%})")
    t.heading(f"repack, {isa}: bytes read and written a second (the share of a copy)")
    t.grid(grid)


def put_rows(t, figures, isa, rows, generic):
    tokens = sorted(next(iter(rows.values())))
    grid = Grid("rows", *(head for n in tokens for head in (f"{n}: time", "GB/s")),
                *(f"{n}: generic" for n in tokens if generic))
    for what, row in rows.items():
        cells = []
        for n in tokens:
            cells += [seconds(row[n][0]), f"{row[n][1] / row[n][0] / 1e9:.1f} ({figures.row_share(isa, row[n])})"]
        # A row without a star is what a starred one does for weights as they are in the file.
        plain = generic.get(what.replace("*", "")) if generic else None
        cells += [times(plain[n][0] / row[n][0]) for n in tokens if plain]
        grid.row(what, *cells)
    t.heading(f"rows, {isa}, one thread: bytes read and written a second (the share of the roof, and which one)"
              + ("; times as fast as generic" if generic else ""))
    t.grid(grid)


def part_kernels(b):
    quick = b.o.quick
    got = b.measure("kernels", "kernels", b.threads, 0.001 if quick else 0.1, *(["quick"] if quick else []))
    figures = Figures(got)
    t = b.table
    t.heading(f"roofs, {b.threads} threads")
    grid = Grid("", "")
    grid.row("read from memory", speed(figures.read))
    grid.row("copied from memory to memory, read and written", speed(figures.copy))
    for isa, loops in figures.loops.items():
        for name, value in loops.values():
            grid.row(f"{isa}: {name}", f"{value / 1e9:.0f} G products/s")
    for isa, value in figures.alone.items():
        grid.row(f"{isa}: fma, one thread", f"{value / 1e9:.0f} G products/s")
    t.grid(grid)
    for isa, types in figures.matmul.items():
        if isa == "generic" or b.o.isa not in (None, isa):
            continue
        generic = {name: getattr(figures, name).get("generic") for name in ("matmul", "heads", "attention", "states")}
        put(t, figures, isa, "matmul", types, generic["matmul"], lambda what: what.rstrip("*"), figures.read)
        if isa in figures.repack:
            put_repack(t, figures, isa, figures.repack[isa])
        put(t, figures, isa, "heads", figures.heads[isa], generic["heads"],
            lambda what: "F32" if "-turned" in what else what.split(",")[0], figures.read)
        put(t, figures, isa, "attention", figures.attention[isa], generic["attention"], lambda what: "F32",
            figures.read)
        put(t, figures, isa, "states", figures.states[isa], generic["states"], lambda what: "F32", figures.copy)
        put_rows(t, figures, isa, figures.rows[isa], figures.rows.get("generic"))
