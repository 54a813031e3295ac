#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""text.py ROOT: what the project's rules say about text alone. Each rule has its comment below."""
import os
import re
import sys

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
report = table.Report()

TEXT = ('.c', '.h', '.py', '.sh', '.build', '.md', '.proto', '.txt', '.in', '.service', '.socket', '.slice',
        '.conf', '.yml', '.js', '.ts', '.1', '.3', '.5', '.8', '')

# Unfinished work. (The words are taken apart so that this file does not name itself.) With a colon behind it one of them is an attribute of
# fields in HTML.
UNFINISHED = re.compile(
    r'\b(TO' r'DO|FIX' r'ME|X' r'XX|HA' r'CK)\b|not (yet )?imple' r'mented|unimple' r'mented|\bfor' r' now\b|'
    r'place' r'holder\b(?!:)|\bst' r'ubs?\b')

# Paths of the machine that the project is developed on.
MACHINE = re.compile(r'/wo' r'rk/|/fa' r'rm/|/tmp/bash' r'_jobs|/tmp/te' r'am')

# Only a program's main file may end the process; lib/ prints nothing. (The command-line client's
# signal handler may _exit() on a second ^C.)
MAIN_FILES = re.compile(r'^(daemon/main|client/(main|cli-main)|tools/(.*/)?main)\.c$')
ENDS = re.compile(r'(?<![\w.>])(_?exit|_Exit|abort|quick_exit)\s*\(')
PRINTS = re.compile(r'(?<![\w.>])(v?printf|v?fprintf|puts|fputs|putchar|perror|syslog|sd_journal_\w+)\s*\(')

# The environment is no place for settings. What these folders may ask for:
ENVIRONMENT = {
    # DISPLAY, WAYLAND_DISPLAY: whether there is a desktop that could show a page.
    'client': r'CONFAB_SOCKET|XDG_\w+|HOME|TERM|NO_COLOR|COLUMNS|PAGER|EDITOR|DISPLAY|WAYLAND_DISPLAY',
    'service': r'NOTIFY_SOCKET|JOURNAL_STREAM',
    'daemon': r'LISTEN_\w+|NOTIFY_SOCKET|WATCHDOG_\w+|MEMORY_PRESSURE_\w+|CREDENTIALS_DIRECTORY|INVOCATION_ID|'
              r'JOURNAL_STREAM|(RUNTIME|STATE|CACHE|LOGS|CONFIGURATION)_DIRECTORY|XDG_\w+|HOME',
}

# Functions of libm whose bits differ between libraries (I2): lib/ has base/dmath.h. sqrt, fma and
# the rounding functions are exact by IEEE 754.
LIBM = re.compile(
    r'(?<![\w.>])(exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|'
    r'tanh|asinh|acosh|atanh|cbrt|hypot|erf|erfc|tgamma|lgamma)[fl]?\s*\(')

# Threads take no signals: thread_start() sees to that.
THREAD = re.compile(r'\bpthread_create\s*\(')

ARCHITECTURE = re.compile(r'^\s*#\s*(if|elif|ifdef).*__(x86_64|i386|AVX|SSE|FMA|F16C|aarch64|ARM)')
SPDX = 'SPDX-License-Identifier: MIT'


def check_c(path, text):
    # lib/service logs and talks to the service manager: it is part of the programs that serve.
    top = 'service' if path.startswith('lib/service/') else path.split('/')[0]
    product = top in ('lib', 'service', 'proto', 'daemon', 'client', 'tools')
    if text.split('\n')[0] != f'/* {SPDX} */':
        report.bad(path, 1, f'the first line must be /* {SPDX} */')
    if path.endswith('.h') and '\n#pragma once\n' not in text:
        report.bad(path, 1, 'header without #pragma once')
    if not product:
        return
    raw = text.splitlines()
    for n, line in enumerate(table.code_only(text).splitlines(), 1):
        ends = ENDS.search(line)
        if ends and not MAIN_FILES.match(path) and not (path.startswith('client/cli-') and ends[1] == '_exit'):
            report.bad(path, n, 'ends the process outside of a main file')
        if top == 'lib' and PRINTS.search(line):
            report.bad(path, n, 'lib/ prints')
        if top == 'lib' and LIBM.search(line):
            report.bad(path, n, 'libm function whose bits are not defined; see base/dmath.h')
        if THREAD.search(line) and path != 'lib/base/thread.c':
            report.bad(path, n, 'a thread that takes signals; see base/thread.h')
        if top != 'tools' and not path.startswith(table.SIMD_FOLDERS) and ARCHITECTURE.match(line):
            report.bad(path, n, 'instruction sets are for lib/kern, lib/spill/codec and lib/base/dmath-exp.c to know')
        if re.search(r'\btypedef\s+(struct|union|enum)\b', line):
            report.bad(path, n, 'typedef of a struct')
        if 'getenv' in line:
            asked = re.search(r'getenv\(\s*"(\w*)"', raw[n - 1])
            if not asked or not re.fullmatch(ENVIRONMENT.get(top, '-'), asked[1]):
                report.bad(path, n, 'the environment is no place for settings')


def check_any(path, text):
    for n, line in enumerate(text.splitlines(), 1):
        m = UNFINISHED.search(line)
        if m:
            report.bad(path, n, f'unfinished by its own words: "{m[0]}"')
        if MACHINE.search(line):
            report.bad(path, n, 'a path of one machine')
        if line != line.rstrip():
            report.bad(path, n, 'white space at the end')
    if text and not text.endswith('\n'):
        report.bad(path, text.count('\n') + 1, 'no newline at the end')


# A line of a verb's help that tells of an option: "  -p, --prompt N   ...".
OPTION = re.compile(r'"  (?:(-\w), )?(--[a-z-]+)', re.M)
PAGE = 'docs/confab-model.1'


def check_options(path, text):
    """Each option in the help of a verb of confab-model is in the verb's part of the page, or among the
    options of all."""
    verb = path.rsplit('verb-', 1)[1].removesuffix('.c')
    page = table.read(root, PAGE)
    own = page.partition(f'\n.TP\n.B {verb}\n')[2]
    own = re.split(r'\n\.TP\n\.B [a-z]|\n\.SH ', own)[0] + page.partition('\n.SH OPTIONS\n')[2]
    for short, long in OPTION.findall(text):
        names = [name.replace('-', r'\-') for name in (short, long) if name]
        if not any(re.search(re.escape(name) + r'(?![\w\\])', own) for name in names):
            report.bad(path, 1, f'{long} is not in the page ({PAGE})')


# Pages name files by their paths below the root, and a row of a table may name functions of its file.
NAMED = re.compile(r'`((?:lib|proto|daemon|client|tools|tests|systemd|models|docs)/[\w./-]*\w)`')
ROW = re.compile(r'\| `([\w./-]+\.[ch])` \|(.*)\|$')


def check_page(path, text):
    for n, line in enumerate(text.splitlines(), 1):
        for name in NAMED.findall(line):
            if not os.path.exists(os.path.join(root, name)):
                report.bad(path, n, f'there is no {name}')
        row = ROW.search(line)
        if row and os.path.exists(os.path.join(root, row[1])):
            code = table.code_only(table.read(root, row[1]))
            for function in re.findall(r'`(\w+)\(\)`', row[2]):
                if not re.search(rf'\b{function}\(', code):
                    report.bad(path, n, f'{row[1]} has no {function}()')


n_checked = 0
for source in table.files(root, TEXT):
    full = os.path.join(root, source)
    if '/corpus-' in source or os.path.getsize(full) > 4 << 20:
        continue
    try:
        content = table.read(root, source)
    except UnicodeDecodeError:
        if source.endswith(TEXT[:-1]):
            report.bad(source, 1, 'not UTF-8')
        continue
    n_checked += 1
    check_any(source, content)
    if source.endswith(('.c', '.h')):
        check_c(source, content)
        if source.startswith('tools/confab-model/verb-'):
            check_options(source, content)
    elif source.endswith('.md'):
        check_page(source, content)
    elif source.endswith(('.py', '.sh', '.js', '.ts')) or content.startswith('#!'):
        if SPDX not in '\n'.join(content.split('\n')[:3]):
            report.bad(source, 1, f'no line # {SPDX} (or // {SPDX}) at the top')
report.finish(n_checked)
