#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make-unicode.py > unicode-table.c: what pre-tokenizers ask of characters.

Run by hand with Python's `regex` module (python3-regex), whose Unicode version is newer than that of
Python itself. The result is in the tree.
"""
import regex

CATEGORIES = ('Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs').split()
FLAGS = ((32, r'\p{White_Space}'), (64, r'\p{Script=Han}'),
         (128, r'[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]'))


def properties():
    every = ''.join(chr(c) for c in range(0x110000))
    value = bytearray(0x110000)
    for i, category in enumerate(CATEGORIES):
        for c in regex.findall(r'\p{%s}' % category, every):
            value[ord(c)] = i
    for flag, pattern in FLAGS:
        for c in regex.findall(pattern, every):
            value[ord(c)] |= flag
    return value


def main():
    value = properties()
    print('/* SPDX-License-Identifier: MIT */')
    print('/*')
    print(' * What pre-tokenizers ask of characters, by Unicode 17.0. Made by make-unicode.py; do not edit.')
    print(' *')
    print(' * Each number is code point << 8 | properties (regex.h), which hold up to the next code point.')
    print(' */')
    print('/* clang-format off */')
    print('#include "tok/regex.h"\n')
    print('const uint32_t tok_unicode[] = {', end='')
    n = 0
    for c in range(0x110000):
        if c == 0 or value[c] != value[c - 1]:
            print('\n        ' if n % 9 == 0 else ' ', end='')
            print(f'0x{c << 8 | value[c]:x},', end='')
            n += 1
    print('\n};')
    print(f'const size_t tok_unicode_size = {n};')


main()
