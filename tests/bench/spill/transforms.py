#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Methods tried for the block codec: ratios of transforms on a dump of dump-kv with f16 memory.

    transforms.py DUMP...

Each row is a method; each column is keys or values of early, middle or late layers, "all" all of
them. A column's part of one block is one section. Entropies are sums of -log2 p over a section,
without the loss of a real coder. "bound" means that the side information for the decoder is not
counted. Needs numpy and liblz4.so.1.
"""

import ctypes
import lzma
import struct
import sys
import zlib

import numpy as np

LZ4 = ctypes.CDLL("liblz4.so.1")
COLUMNS = ["all", "K early", "K middle", "K late", "V early", "V middle", "V late"]


def load(path):
    """[(is K, layer, values [block][tile][channel][token])]"""
    data = open(path, "rb").read()
    magic, n_arrays, n_blocks, size = struct.unpack_from("<8sIIQ", data)
    assert magic == b"CONFKVD2"
    blocks = np.frombuffer(data, np.uint8, n_blocks * size, 24 + 32 * n_arrays)
    blocks = blocks.reshape(n_blocks, size)
    out = []
    for i in range(n_arrays):
        element, layer, t, c, n, major, at = struct.unpack_from("<6IQ", data, 24 + 32 * i)
        assert element == 1, "f16 only"
        x = blocks[:, at:at + 2 * t * c * n].copy().view(np.uint16)
        x = x.reshape(n_blocks, t, c, n) if major else \
            x.reshape(n_blocks, t, n, c).transpose(0, 1, 3, 2)
        out.append((bool(major), layer, x))
    return out


def lz4(data, high=False):
    src = bytes(data)
    dst = ctypes.create_string_buffer(len(src) + len(src) // 255 + 64)
    if high:
        n = LZ4.LZ4_compress_HC(src, dst, len(src), len(dst), 12)
    else:
        n = LZ4.LZ4_compress_default(src, dst, len(src), len(dst))
    return 8 * n


def entropy(symbols):
    counts = np.bincount(symbols.ravel().astype(np.int64))
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def memory_order(x, major):
    return x if major else x.transpose(0, 2, 1)


def byte_planes(x):
    return np.ascontiguousarray(x).view(np.uint8).reshape(-1, 2).T.tobytes()


def bit_planes(x):
    bits = np.unpackbits(np.ascontiguousarray(x).astype(">u2").view(np.uint8)).reshape(-1, 16)
    return np.packbits(bits.T).tobytes()


def ordered(x):
    """Integers in the order of the numbers."""
    return np.where(x >> 15, ~x, x | 0x8000).astype(np.uint16)


def along(x, op):
    out = x.copy()
    out[..., 1:] = op(x[..., 1:], x[..., :-1])
    return out


def unary(x):
    """Sign, and 1 + distance bits for the exponent below the channel's largest, mantissa raw."""
    e = (x >> 10 & 31).astype(int)
    top = e.max(-1, keepdims=True)
    return 5 * top.size + float((1 + np.minimum(top - e + 1, 16) + 10).sum())


def centred(x):
    """Sign and distance to the channel's median exponent, one table for all."""
    e = (x >> 10 & 31).astype(int)
    mid = np.median(e, -1, keepdims=True).astype(int)
    return 5 * mid.size + entropy((e - mid + 32) * 2 + (x >> 15)) + 10 * x.size


def delta_exponent(x):
    e = (x >> 10).astype(int)
    return entropy(e[..., 0]) + entropy((e[..., 1:] - e[..., :-1]) & 63) + 10 * x.size


def after_previous(x):
    """Sign and exponent given those of the token before."""
    e = (x >> 10).astype(int)
    pair = e[..., :-1] * 64 + e[..., 1:]
    return entropy(e[..., 0]) + entropy(pair) - entropy(e[..., :-1]) + 10 * x.size


def huffman(x):
    """Top byte, one code of at most 11 bits per section, table of 4 bits per symbol."""
    counts = np.bincount(x.ravel() >> 8, minlength=256).astype(float)
    used = counts[counts > 0]
    weights = np.maximum(used, used.sum() / 1500)
    heap = [(w, [i]) for i, w in enumerate(weights)]
    depth = np.zeros(len(weights))
    while len(heap) > 1:
        heap.sort(key=lambda item: -item[0])
        (a, left), (b, right) = heap.pop(), heap.pop()
        depth[left + right] += 1
        heap.append((a + b, left + right))
    return float((used * np.maximum(depth, 1)).sum()) + 4 * len(used) + 32 + 8 * x.size


def per_channel(x, bits):
    rows = (x >> (16 - bits)).reshape(-1, x.shape[-1])
    return sum(entropy(row) for row in rows) + (16 - bits) * x.size


def classes(x, bits, k):
    """Each channel chooses one of k tables; tables and choices are counted."""
    rows = (x >> (16 - bits)).astype(int).reshape(-1, x.shape[-1])
    n = len(rows)
    hist = np.zeros((n, 1 << bits))
    for column in rows.T:
        hist[np.arange(n), column] += 1
    negative = (rows >> (bits - 1)).mean(1)
    size = (rows & ((1 << (bits - 1)) - 1)).sum(1)
    cls = np.zeros(n, int)
    mixed = np.arange(n)
    if k >= 4:
        cls[negative <= 1 / 8] = k - 2
        cls[negative >= 7 / 8] = k - 1
        mixed = np.where((negative > 1 / 8) & (negative < 7 / 8))[0]
    rank = np.argsort(np.argsort(size[mixed], kind="stable"), kind="stable")
    cls[mixed] = rank * (k - 2 if k >= 4 else k) // max(1, len(mixed))
    for _ in range(4):
        table = np.zeros((k, 1 << bits))
        np.add.at(table, cls, hist)
        p = table + 0.125
        cls = (hist @ -np.log2(p / p.sum(1, keepdims=True)).T).argmin(1)
    table = np.zeros((k, 1 << bits))
    np.add.at(table, cls, hist)
    cost = np.ceil(np.log2(k)) * n
    for counts in table:
        used = counts[counts > 0]
        cost += -(used * np.log2(used / max(1, used.sum()))).sum() + 4 * len(used) + 32
    return float(cost) + (16 - bits) * x.size


# Functions of (values of one block in channel-major order, the same in memory order) → bits.
METHODS = [
    ("LZ4", lambda c, m: lz4(m.tobytes())),
    ("LZ4 HC 12", lambda c, m: lz4(m.tobytes(), True)),
    ("byte planes, LZ4", lambda c, m: lz4(byte_planes(m))),
    ("bit planes, LZ4", lambda c, m: lz4(bit_planes(m))),
    ("channel-major byte planes, LZ4", lambda c, m: lz4(byte_planes(c))),
    ("channel-major bit planes, LZ4", lambda c, m: lz4(bit_planes(c))),
    ("... XOR along tokens", lambda c, m: lz4(bit_planes(along(c, np.bitwise_xor)))),
    ("... difference along tokens", lambda c, m: lz4(bit_planes(along(ordered(c), np.subtract)))),
    ("channel-major byte planes, zlib 9", lambda c, m: 8 * len(zlib.compress(byte_planes(c), 9))),
    ("channel-major byte planes, xz 9", lambda c, m: 8 * len(lzma.compress(byte_planes(c), preset=9))),
    ("exponent in unary below the channel's", lambda c, m: unary(c)),
    ("exponent about the channel's, one table", lambda c, m: centred(c)),
    ("exponent minus the token's before", lambda c, m: delta_exponent(c)),
    ("exponent after the token's before (bound)", lambda c, m: after_previous(c)),
    ("Huffman of the top byte", lambda c, m: huffman(c)),
    ("entropy of 6 bits", lambda c, m: entropy(c >> 10) + 10 * c.size),
    ("entropy of 6 bits per channel (bound)", lambda c, m: per_channel(c, 6)),
    ("6 bits, 4 classes", lambda c, m: classes(c, 6, 4)),
    ("6 bits, 8 classes", lambda c, m: classes(c, 6, 8)),
    ("7 bits, 8 classes", lambda c, m: classes(c, 7, 8)),
    ("8 bits, 1 class", lambda c, m: classes(c, 8, 1)),
    ("8 bits, 2 classes", lambda c, m: classes(c, 8, 2)),
    ("8 bits, 4 classes", lambda c, m: classes(c, 8, 4)),
    ("8 bits, 8 classes", lambda c, m: classes(c, 8, 8)),
    ("8 bits, 16 classes", lambda c, m: classes(c, 8, 16)),
]


def chosen(arrays, column):
    n_layers = max(layer for _, layer, _ in arrays) + 1
    for major, layer, x in arrays:
        name = ("K " if major else "V ") + ["early", "middle", "late"][layer * 3 // n_layers]
        if column in ("all", name):
            yield major, x


def ratio(arrays, column, method):
    raw = bits = 0
    for b in range(0, arrays[0][2].shape[0], 2):
        c = np.concatenate([x[b].reshape(-1, x.shape[-1]) for _, x in chosen(arrays, column)])
        m = np.concatenate([np.ascontiguousarray(memory_order(x[b], major)).ravel()
                            for major, x in chosen(arrays, column)])
        raw += 16 * c.size
        bits += method(np.ascontiguousarray(c), m)
    return raw / bits


def main():
    for path in sys.argv[1:]:
        arrays = load(path)
        print("| %s | %s |" % (path.split("/")[-1], " | ".join(COLUMNS)))
        print("|---|" + "---:|" * len(COLUMNS))
        for name, method in METHODS:
            cells = ["%.3f" % ratio(arrays, column, method) for column in COLUMNS]
            print("| %s | %s |" % (name, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
