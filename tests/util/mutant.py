# SPDX-License-Identifier: MIT
"""The planted mistakes of tests/mutants: what a file of them says, and how it is put into the code.

A file tests/mutants/MODULE/ID-NAME.patch has a head and a diff:

    What the mistake is, in one sentence.
    Suites: seq/seq seq/random      (who should see it, quickest first; as `meson test --list` has them)
    Equivalent: why nobody can      (instead of Suites)
    Build: asan                     (if only that build sees it)

    --- a/lib/seq/seq.c
    +++ b/lib/seq/seq.c
    @@
     a line that stays
    -a line that goes
    +a line that comes

A hunk is found by its text alone: the lines that stay and go must be in the file once, whole and one
after another. If they are not there any more, or more than once, the mutant is broken: its mistake
has to be looked for anew.
"""
import pathlib
import re

FOLDER = 'tests/mutants'
BUILDS = ('plain', 'asan')
KEYS = ('Suites', 'Equivalent', 'Build')


class Broken(Exception):
    """What is wrong with a mutant."""


class Mutant:
    def __init__(self, path, text):
        self.path = path  # below the root
        self.module = pathlib.PurePath(path).parent.name
        self.id = pathlib.PurePath(path).name.split('-')[0]
        self.head, self.hunks = {}, []  # hunks: [path, lines before, lines after]
        head, _, diff = text.partition('\n--- ')
        self.sentence = head.split('\n')[0]
        for line in head.splitlines()[1:]:
            key, colon, value = line.partition(': ')
            if line and (not colon or key not in KEYS):
                raise Broken(f'"{line}" is none of {", ".join(KEYS)}')
            if line:
                self.head[key] = value.strip()
        self._read_diff(('--- ' + diff).splitlines() if diff else [])
        self.suites = self.head.get('Suites', '').split()
        self.equivalent = self.head.get('Equivalent')
        self.build = self.head.get('Build', 'plain')
        self._check()

    def _read_diff(self, lines):
        path = None
        for line in lines:
            if line.startswith('--- a/'):
                path = line[6:]
            elif line.startswith('@@') and path:
                self.hunks.append((path, [], []))
            elif line.startswith('+++ b/') and path == line[6:]:
                continue
            elif self.hunks and line[:1] in (' ', '-', '+', ''):
                if line[:1] != '+':
                    self.hunks[-1][1].append(line[1:])
                if line[:1] != '-':
                    self.hunks[-1][2].append(line[1:])
            else:
                raise Broken(f'"{line}" does not belong into the diff')

    def _check(self):
        if not self.sentence.strip():
            raise Broken('the first line does not say what the mistake is')
        if bool(self.suites) == bool(self.equivalent):
            raise Broken('one of Suites and Equivalent is needed')
        if self.build not in BUILDS:
            raise Broken(f'there is no build "{self.build}"')
        if not self.hunks or any(before == after for _, before, after in self.hunks):
            raise Broken('there is nothing to change')

    def plant(self, root):
        """{path: its text with the mistake}, of the files below root."""
        texts = {}
        for path, before, after in self.hunks:
            try:
                text = texts.get(path) or pathlib.Path(root, path).read_text(encoding='utf-8')
            except OSError as e:
                raise Broken(f'{path} is gone') from e
            old, new = (''.join(line + '\n' for line in lines) for lines in (before, after))
            n = len(re.findall(f'^(?={re.escape(old)})', text, flags=re.M))
            if n != 1:
                raise Broken(f'its lines are {"gone from" if n == 0 else f"{n} times in"} {path}')
            at = re.search('^' + re.escape(old), text, flags=re.M).start()
            texts[path] = text[:at] + new + text[at + len(old):]
        return texts


def load(root):
    """All mutants, and [(path, what is wrong)] of the files that are none."""
    mutants, broken, ids = [], [], {}
    for path in sorted(pathlib.Path(root, FOLDER).glob('*/*.patch')):
        name = str(path.relative_to(root))
        try:
            mutant = Mutant(name, path.read_text(encoding='utf-8'))
            if mutant.id in ids:
                raise Broken(f'{mutant.id} is the id of {ids[mutant.id]}, too')
            ids[mutant.id] = name
            mutants.append(mutant)
        except Broken as e:
            broken.append((name, str(e)))
    return mutants, broken
