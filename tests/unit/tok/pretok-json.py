#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the table of pre-tokenizers with the independent engine's (reference/vocab/pretokenizers.json).

usage: pretok-json.py PRETOK_DUMP

Names and flags must be the same, and the rules too, but for what is listed in DIFFERENT. Exit status
77 without the reference data.
"""
import json
import os
import re
import subprocess
import sys

IGNORE_MERGES, ADD_BOS, RAW, ESCAPE = 1, 2, 4, 8
# Rules that are not written as they are there, by the first name in our row, and why. test-pretok.c
# tests these rules, and all others, against the models' own regexes.
DIFFERENT = {
    'tekken': 'there the regex knows the case of ASCII letters only',
    'gpt-4o': 'the same',
    'granite-embed-multi-97m': 'the same',
    'kimi-k2': 'there it is code',
    'afmoe': 'there a range begins at U+8C48, the normal form of U+F900, which its end shows to be meant',
}
# What rules of pretok.c stand for, and the look-behinds that spare a rule from reading a run again.
WRITTEN = {
    '@digits': r'\d{1,3}(?=(?:\d{3})*\b)',
    '@groups': r'\p{AFMoE_digits}',
    '@thousands': r'(?=(\d{3})+(?!\d))',
}
LOOK_BEHINDS = (r'(?<!\s)', r'(?<![^\S\r\n])')


def plain(rule):
    """The rule with all its characters as themselves."""
    rule = WRITTEN.get(rule, rule)
    for behind in LOOK_BEHINDS:
        rule = rule.replace(behind, '')
    rule = re.sub(r'\\x\{([0-9A-F]+)\}', lambda m: chr(int(m[1], 16)), rule)
    rule = rule.replace(r'\r', '\r').replace(r'\n', '\n').replace('{1}', '')
    # Escapes of characters that stand for themselves.
    return re.sub(r'\\([^\w\\\[\]-])', r'\1', rule).replace(r'\-', '-')


def main():
    path = os.path.join(os.environ.get('CONFAB_SHARED') or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), '../../../../shared'), 'reference/vocab/pretokenizers.json')
    if not os.path.exists(path):
        print('skipped: no', path)
        return 77
    ours = {}
    for line in subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines():
        names, flags, *rules = line.split('\t')
        for name in names.split():
            ours[name] = (names.split()[0], int(flags), rules)
    ours['(missing)'] = ours['default']
    failed = 0
    with open(path, encoding='utf-8') as f:
        theirs = json.load(f)['pretokenizers']
    for t in theirs:
        row, flags, rules = ours.pop(t['pre'], ('', 0, []))
        wanted = ((IGNORE_MERGES if t['ignore_merges'] else 0) | (ADD_BOS if t['add_bos_default'] else 0)
                  | (0 if t['byte_encode'] else RAW) | (ESCAPE if t['escape_whitespaces'] else 0))
        if flags != wanted:
            print(f"{t['pre']}: flags {flags}, not {wanted}")
            failed = 1
        same = [plain(r) for r in rules] == [plain(r) for r in t['regexes']]
        if same == (row in DIFFERENT):
            print(f"{t['pre']}: rules", *(map(repr, rules)), 'are not' if not same else 'are', *(map(repr, t['regexes'])), sep='\n  ')
            failed = 1
    if ours:
        print('not there:', *ours)
        failed = 1
    print(len(theirs), 'names compared')
    return failed


sys.exit(main())
