#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""catalog.py CATALOG SOURCE JOURNALCTL: the catalogue is what journalctl takes, and has each event of the code, no others.

JOURNALCTL may be empty: then the file alone is looked at.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

catalog, source, journalctl = sys.argv[1:4]


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def run(*words):
    done = subprocess.run([journalctl, *words], capture_output=True, text=True, check=False)
    need(done.returncode == 0, f'{" ".join(words)}: {done.stderr}')
    return done.stdout


text = pathlib.Path(catalog).read_text('utf-8')
entries = re.findall(r'(?m)^-- ([0-9a-f]{32})$', text)
table = re.findall(r'\.id = "([0-9a-f]{32})"', pathlib.Path(source, 'lib/service/logged.c').read_text('utf-8'))
need(len(table) > 40 and entries == table, 'the catalogue has not the events of the table, in their order')
need(len(set(entries)) == len(entries), 'an event is there twice')
for part in re.split(r'(?m)^-- ', text)[1:]:
    head, _, words = part.partition('\n\n')
    need(re.fullmatch(r'[0-9a-f]{32}\nSubject: .{10,}\nDefined-By: confab\nDocumentation: man:confab-journal\(7\)', head), head)
    need(len(words) > 40 and all(len(line) <= 100 for line in words.splitlines()), words)
    need('@' not in re.sub(r'@[A-Z_]+@', '', words), f'a sign that stands for no field: {words}')
if not journalctl:
    print('SKIP: no journalctl here: only the file was looked at')
    sys.exit(0)
with tempfile.TemporaryDirectory() as root:
    folder = pathlib.Path(root, 'usr/lib/systemd/catalog')
    folder.mkdir(parents=True)
    pathlib.Path(root, 'var/lib/systemd/catalog').mkdir(parents=True)
    shutil.copy(catalog, folder / 'confab.catalog')
    run(f'--root={root}', '--update-catalog')
    listed = run(f'--root={root}', '--list-catalog')
    for name in entries:
        need(name in listed, f'journalctl did not take {name}')
    # journalctl takes a wrong file without a word, but for the entries that it leaves out.
    dumped = run(f'--root={root}', '--dump-catalog')
    need(dumped.count('Defined-By: confab') == len(entries), 'journalctl has not all explanations')
print(f'{len(entries)} events')
