#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode-table.c, from what this Python knows of Unicode: make-unicode-table.py > unicode-table.c

ASCII is not in the tables; unicode.c knows it.
"""
import sys
import unicodedata


def ranges(test):
    """(first, last) of the characters beyond ASCII that pass."""
    found = []
    for c in range(0x80, 0x110000):
        if 0xD800 <= c < 0xE000 or not test(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def maps(to):
    """(first, last, step, difference) of characters that become one other, and (c, [c, c, c]) of the rest."""
    rows, special = [], []
    for c in range(0x80, 0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        s = to(chr(c))
        if s == chr(c):
            continue
        if len(s) > 1:
            special.append((c, [ord(x) for x in s]))
            continue
        difference = ord(s) - c
        if rows and rows[-1][3] == difference:
            first, last, step, _ = rows[-1]
            if c - last == (step or c - last) and c - last <= 2:
                rows[-1] = [first, c, c - last, difference]
                continue
        rows.append([c, c, 0, difference])
    return [[first, last, step or 1, d] for first, last, step, d in rows], special


def write_rows(declaration, rows):
    print(f'\n{declaration} = {{')
    line = '       '
    for row in rows:
        text = ' {' + ', '.join(str(x) if abs(x) < 10 else (f'-{-x:#x}' if x < 0 else f'{x:#x}') for x in row) + '},'
        if len(line) + len(text) > 100:
            print(line)
            line = '       '
        line += text
    print(line)
    print('};')


def write_ranges(name, test):
    rows = ranges(test)
    write_rows(f'const struct unicode_range unicode_{name}[]', rows)
    print(f'const size_t unicode_n_{name} = {len(rows)};')


def write_maps(name, to):
    rows, special = maps(to)
    write_rows(f'const struct unicode_map unicode_{name}_map[]', rows)
    print(f'const size_t unicode_n_{name}_map = {len(rows)};')
    write_rows(f'const struct unicode_special unicode_{name}_special[]',
               [[c, *(s + [0, 0])[:3]] for c, s in special])
    print(f'const size_t unicode_n_{name}_special = {len(special)};')


print(f'''/* SPDX-License-Identifier: MIT */
/* Made by make-unicode-table.py from Unicode {unicodedata.unidata_version}. */
/* clang-format off */
#include "jinja/unicode-table.h"''')
write_ranges('printable', str.isprintable)
write_ranges('alpha', str.isalpha)
write_ranges('digit', str.isdigit)
write_ranges('decimal', str.isdecimal)
write_ranges('numeric', str.isnumeric)
write_ranges('lower_set', str.islower)
write_ranges('upper_set', str.isupper)
write_maps('upper', str.upper)
write_maps('lower', str.lower)
write_maps('title', str.title)
sys.exit(0)
