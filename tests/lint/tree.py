#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tree.py ROOT: what is in the tree, and where.

1. The top level is fixed: whoever comes new reads it in one look, and what is new finds its place in a folder.
2. No file is what a run left: logs, files of processes, of editors and of merges, dumps, objects. They come along with
   `git add -A`.

Looked at is what git tracks; where there is no repository (an archive of the tree), all files but those of builds.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import table

FOLDERS = {'.ci', 'client', 'daemon', 'docs', 'lib', 'models', 'proto', 'systemd', 'tests', 'tools'}
FILES = {'.clang-format', '.clang-tidy', '.editorconfig', '.gitignore', 'LICENSE', 'README.md', 'meson.build',
         'meson_options.txt'}

LEFT_BEHIND = re.compile(
    r'.*\.(pid|log|orig|rej|bak|sw[a-p]|tmp|o|a|so|pyc|gcda|gcno|profraw|deb)|.*~|core(\.\d+)?|vgcore\.\d+|pid|a\.out|nohup\.out|'
    r'\.DS_Store|Thumbs\.db')


def tracked(root):
    """What git tracks in the work tree at root, or None if root is none."""
    if not os.path.exists(os.path.join(root, '.git')):
        return None
    try:
        done = subprocess.run(['git', '-c', f'safe.directory={os.path.realpath(root)}', 'ls-files', '-z'], cwd=root,
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    # A file that is deleted, and not yet committed so, is gone.
    return [path for path in done.stdout.split('\0') if path and os.path.lexists(os.path.join(root, path))]


def walk(root):
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [d for d in folders if not table.SKIP_FOLDERS.match(d) or d == '.ci']
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


root = sys.argv[1]
report = table.Report()
paths = tracked(root)
if paths is None:
    paths = walk(root)
for path in sorted(paths):
    first, *rest = path.split('/')
    if first not in (FOLDERS if rest else FILES):
        report.bad(path, 1, f"'{first}' has no place at the top of the tree: tests/lint/tree.py has what is there")
    if LEFT_BEHIND.fullmatch(path.rsplit('/', 1)[-1]):
        report.bad(path, 1, 'looks like what a run left behind')
report.finish(len(paths))
