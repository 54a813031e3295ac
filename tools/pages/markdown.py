#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""markdown.py SOURCE.md NAME SECTION SUMMARY VERSION PAGE: a page of docs/ as a manual page.

It knows the Markdown that docs/ is written in: headings, paragraphs, lists (one level deeper, too), tables, fenced code,
`code`, *emphasis*, **strong** and [links](...). A line that it does not know, such as HTML, ends it with an error rather than
come out as something else. A table becomes a list: the first cell of a row is its tag, the others follow, with the
column's title where there are several.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from roff import bold, escape, fill, italic, literal, quote, references, title

INLINE = re.compile(r'`(?P<code>[^`]+)`|\*\*(?P<strong>.+?)\*\*|\*(?P<emphasis>[^*\s][^*]*)\*|\[(?P<text>(?:`[^`]*`|[^\]])+)\]\((?P<link>[^)]+)\)'
                    r'|\\(?P<escaped>[|*_`])')
ITEM = re.compile(r'(?P<indent> *)(?:[-*]|(?P<number>\d+)\.) +(?P<text>.*)')


def inline(text):
    out, at = [], 0
    for m in INLINE.finditer(text):
        out.append(escape(text[at:m.start()]))
        at = m.end()
        if m['code']:
            # long code may be broken within: names are not hyphenated
            code = bold(m['code'].replace('\\|', '|'))
            out.append(re.sub('([/_,:])', r'\1\\:', code) if len(m['code']) > 30 else code)
        elif m['strong']:
            out.append(bold(re.sub(r'`([^`]*)`', r'\1', m['strong'])))
        elif m['emphasis']:
            out.append(italic(m['emphasis']))
        elif m['escaped']:
            out.append(escape(m['escaped']))
        else:
            # where it leads is of use on paper only if it is another document
            link = m['link'].removeprefix('../')
            where = '' if link.startswith('#') or link == m['text'].strip('`') else f' ({escape(link)})'
            out.append(inline(m['text']) + where)
    out.append(escape(text[at:]))
    return ''.join(out)


def cells(row):
    """The cells of a row; in code a bar is written with a backslash."""
    return [cell.strip() for cell in re.split(r'(?<!\\)\|', row.strip().strip('|'))]


def table(rows):
    heads, lines = cells(rows[0]), []
    several = len(heads) > 2
    if len(rows) < 2 or not re.fullmatch(r'[\s|:-]+', rows[1]):
        raise ValueError(f'no line of dashes below the heads of a table: {rows[0]}')
    for row in rows[2:]:
        first, *others = cells(row)
        lines += ['.TP', inline(first)]
        texts = [(f'\\fI{inline(head)}\\fR: ' if several and head else '') + inline(cell)
                 for head, cell in zip(heads[1:], others) if cell]
        lines += fill('; '.join(texts)) if texts else ['\\&']
    return lines + ['.PP']


class Page:
    def __init__(self, source):
        self.lines = source.split('\n')
        self.at = 0
        self.out = []

    def block(self, more):
        """Take lines as long as @more says so of the next one."""
        first = self.at
        self.at += 1
        while self.at < len(self.lines) and more(self.lines[self.at]):
            self.at += 1
        return self.lines[first:self.at]

    def code(self):
        lines = self.block(lambda line: not line.startswith('```'))
        if self.at == len(self.lines):
            raise ValueError(f'a fence without an end: {lines[0]}')
        self.at += 1
        self.out += literal('\n'.join(lines[1:]))

    def items(self):
        """A list: items, their further lines, and items within an item."""
        depth = 0
        while self.at < len(self.lines) and (m := ITEM.fullmatch(self.lines[self.at])):
            level = 1 if len(m['indent']) >= 2 else 0
            self.out += ['.RS 4'] * (level - depth) + ['.RE'] * (depth - level)
            depth = level
            rest = self.block(lambda line: line.startswith(' ') and not ITEM.fullmatch(line))[1:]
            self.out += [f'.IP {m["number"] + "." if m["number"] else chr(92) + "(bu"} 4',
                         *fill(inline(' '.join([m['text'], *(line.strip() for line in rest)])))]
            while self.at + 1 < len(self.lines) and not self.lines[self.at] and ITEM.fullmatch(self.lines[self.at + 1]):
                self.at += 1
        self.out += ['.RE'] * depth + ['.PP']

    def step(self):
        line = self.lines[self.at]
        if not line:
            self.at += 1
        elif line.startswith('# '):
            self.at += 1  # the title is that of the page
        elif m := re.fullmatch(r'#{2,4} (.*)', line):
            self.at += 1
            self.out.append((f'.SH {quote(inline(m[1]).upper())}' if line.startswith('## ') else f'.SS {quote(inline(m[1]))}'))
        elif line.startswith('```'):
            self.code()
        elif line.startswith('|'):
            self.out += table(self.block(lambda line: line.startswith('|')))
        elif ITEM.fullmatch(line):
            self.items()
        elif re.match(r'[<>]| {4}', line):
            raise ValueError(f'not known in a manual page: {line}')
        else:
            plain = self.block(lambda line: bool(line) and not re.match(r'#|```|\||[-*] ', line))
            self.out += ['.PP', *fill(inline(' '.join(plain)))]

    def make(self):
        while self.at < len(self.lines):
            self.step()
        # a paragraph break below a heading or beside another one is nothing, and mandoc says so
        kept = ['.SH']
        for i, line in enumerate(self.out):
            after = self.out[i + 1] if i + 1 < len(self.out) else '.SH'
            if line == '.PP' and (after.startswith(('.PP', '.SH', '.SS', '.TP', '.IP', '.RE')) or kept and kept[-1].startswith(('.SH', '.SS'))):
                continue
            kept.append(line)
        return kept[1:]


def main(source, name, section, summary, version, page):
    lines = title(name, section, version, 'confab')
    lines += ['.SH NAME', f'{escape(name)} \\- {escape(summary)}', '.SH DESCRIPTION']
    lines += Page(pathlib.Path(source).read_text(encoding='utf-8')).make()
    lines += references(['confab(1)', 'libconfab(3)', 'confabd(8)', 'confab-gateway(8)'])
    pathlib.Path(page).write_text('\n'.join(lines) + '\n', encoding='utf-8')


main(*sys.argv[1:])
