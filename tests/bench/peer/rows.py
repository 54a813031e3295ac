# SPDX-License-Identifier: MIT
"""What tools/bench peer measures: rows of a part, a model and a test, with the ratio to be reached.

A test is a tuple whose first word says how both sides run it:
  prefill N            N tokens from nothing
  decode N             N steps of one token
  depth D N            the same behind D tokens
  streams S D N        N steps of S streams, each behind D tokens
  onto D N             N new tokens behind D tokens that are remembered
"""

from collections import namedtuple

# Ratios to the peer, by confab's instruction set: the one of that name, and others.
VNNI = "avx512-vnni"
Aims = namedtuple("Aims", "others vnni")
Row = namedtuple("Row", "part model what test aims")
PREFILL = Aims(1.5, 2.5)
DECODE = Aims(1.0, 1.0)
OF_BANDWIDTH, OF_LOOP = 0.9, 0.6
# The loops that a type's product may have, the first one that the instruction set has (roof.h).
UNITS = {"q4_0": ("dot", "narrow"), "q4_k_m": ("dot", "narrow"), "q8_0": ("dot", "wide"), "f16": ("multiply",)}
SHAPES = (("300m", ("experts",), "8 experts of 2 used"), ("qwen-0.5b", (), "0.5B"),
          ("arch:granite-4.0-h-1b", (), "hybrid with state"))


def tokens_of(test):
    """How many tokens the seconds of a test are about."""
    kind, *n = test
    return n[0] * n[2] if kind == "streams" else n[-1]


def depth_of(test):
    """The most tokens that a test remembers, of all streams."""
    kind, *n = test
    return n[0] * (n[1] + n[2] + 1) if kind == "streams" else sum(n) + 1


def rows(o):
    """All rows of the parts that are asked for; models as the arguments of Bench.model()."""
    q = o.quick
    base = "tiny" if q else "llama-1b"
    types = ("q8_0",) if q else o.types
    steps = 4 if q else 32
    found = []
    for t in types:
        found += [Row("prefill", (base, t), f"{base} {t}, {n} tokens", ("prefill", n), PREFILL)
                  for n in ((64, ) if q else (512, 2048))]
    found += [Row("decode", (base, t), f"{base} {t}, one stream", ("decode", steps), DECODE) for t in types]
    first = (base, types[0])
    found += [Row("depth", first, f"{base} {types[0]}, one stream at {n}", ("depth", n, steps // 2),
                  Aims(2, 2.5)) for n in ((128,) if q else (4096, 16384))]
    found += [Row("streams", first, f"{base} {types[0]}, {n} streams", ("streams", n, 32, steps),
                  Aims(1.8, 2)) for n in ((2,) if q else (8, 16))]
    depth, new = (40, 5) if q else (2000, 25)
    found.append(Row("warm", first, f"{base} {types[0]}, {new} tokens onto {depth}", ("onto", depth, new),
                     Aims(2, 3)))
    for shape, more, what in (("tiny", ("experts",), "experts"),) if q else SHAPES:
        model = (shape, "q8_0" if q else "q4_0", *more)
        name = shape.removeprefix("arch:")
        found += [Row("shapes", model, f"{name}, {what}: {title}", test, Aims(1.5, 2))
                  for title, test in ((f"{64 if q else 512} tokens", ("prefill", 64 if q else 512)),
                                      ("one stream", ("decode", steps)))]
    return [row for row in found if row.part in o.only and o.rows in row.what]


def settings(test):
    """The peer's settings worth trying: flash attention, and how many tokens it computes at a time."""
    kind, *n = test
    sizes = ([512] if kind != "prefill" else [128, 512] if n[0] <= 512 else [512, 2048])
    return [{"-fa": fa, "-ub": ub} for fa in ("on", "off") for ub in sizes]
