#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs.py ROOT: links of pages lead somewhere, every page and picture is reached, and pictures are what they are drawn from.

1. A link or picture of a page (*.md) that is no address of the web is a file of the tree; what stands behind # is a heading of it.
2. Links lead from docs/README.md, over other pages or not, to each page and man page in docs/; each file in docs/pictures is in some page.
3. SVG is well-formed, and safe and whole as a picture in a page: no scripts, nothing from elsewhere.
4. docs/pictures/returns.svg is drawn from returns.json (tests/bench/frontends/bars.py).
5. The newest version in docs/CHANGELOG.md is the one of meson.build.
"""
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import shutil
import urllib.parse
import xml.etree.ElementTree

sys.dont_write_bytecode = True
import table

root = sys.argv[1]
report = table.Report()
LINK = re.compile(r'!?\[(?:[^][]|\[[^][]*\])*\]\(([^()\s]+(?:\([^()\s]*\))?)\)')
WEB = re.compile(r'[a-z][a-z+.-]*:', re.I)


def plain_lines(text):
    """Lines outside of code, with what stands between backticks blanked."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r'\s*(```+|~~~+)', line)
        if mark and fence in (None, mark[1][:3]):
            fence = None if fence else mark[1][:3]
        elif not fence and not line.startswith('    '):
            yield number, line


def anchors(text):
    """Names of the headings, as GitHub makes them."""
    found = {}
    for _, line in plain_lines(text):
        heading = re.match(r'#{1,6} +(.*?)[ #]*$', line)
        if heading:
            words = re.sub(r'!?\[([^]]*)\]\([^)]*\)', r'\1', heading[1]).lower()
            name = re.sub(r'[^\w\- ]', '', words).replace(' ', '-')
            n = found[name] = found.get(name, -1) + 1
            yield f'{name}-{n}' if n else name


def targets(path, text):
    for number, line in plain_lines(text):
        code = re.sub(r'`[^`]*`', lambda m: ' ' * len(m[0]), line)
        for found in LINK.finditer(line):
            if code[found.start()] in '![':
                yield number, found[1]
        for nested in re.finditer(r'\[!\[[^]]*\]\(([^)\s]+)\)\]', line):
            yield number, nested[1]


def check_links(path, text, pages, links):
    reached = links.setdefault(path, set())
    for number, target in targets(path, text):
        if WEB.match(target):
            continue
        name, _, anchor = target.partition('#')
        name = urllib.parse.unquote(name)
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
        reached.add(aim)
        if not os.path.exists(os.path.join(root, aim)):
            report.bad(path, number, f'there is no {aim}')
        elif anchor and aim in pages and anchor not in set(anchors(pages[aim])):
            report.bad(path, number, f'{aim} has no heading #{anchor}')


def check_reached(links):
    index = 'docs/README.md'
    found, waiting = set(), [index]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            waiting += links.get(page, ())
    for name in sorted(os.listdir(os.path.join(root, 'docs'))):
        if index in links and re.search(r'\.(md|[1-8](\.in)?)$', name) and f'docs/{name}' not in found:
            report.bad(index, 1, f'no links lead to {name}')
    reached = set().union(*links.values())
    pictures = os.path.join(root, 'docs', 'pictures')
    for name in sorted(os.listdir(pictures)) if os.path.isdir(pictures) else []:
        if f'docs/pictures/{name}' not in reached:
            report.bad(f'docs/pictures/{name}', 1, 'no page shows it')


def check_svg(path):
    try:
        picture = xml.etree.ElementTree.parse(os.path.join(root, path)).getroot()
    except xml.etree.ElementTree.ParseError as e:
        report.bad(path, e.position[0], f'is not well-formed: {e}')
        return
    for element in picture.iter():
        tag = element.tag.rpartition('}')[2]
        if tag in ('script', 'foreignObject', 'iframe', 'image'):
            report.bad(path, 1, f'has <{tag}>')
        for name, value in element.attrib.items():
            name = name.rpartition('}')[2]
            if name.startswith('on') or name in ('href', 'src') and not value.startswith('#') or \
                    re.search(r'url\((?!["\']?#)', value):
                report.bad(path, 1, f'has {name}="{value[:40]}"')
        if tag == 'style' and re.search(r'@import|url\((?!["\']?#)', element.text or ''):
            report.bad(path, 1, 'has a style that loads something')


def check_drawn():
    data, drawer = 'docs/pictures/returns.json', 'tests/bench/frontends/bars.py'
    if not os.path.exists(os.path.join(root, data)):
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(root, data), folder)
        subprocess.run([sys.executable, '-B', os.path.join(root, drawer), folder], check=True)
        if table.read(folder, 'returns.svg') != table.read(root, 'docs/pictures/returns.svg'):
            report.bad('docs/pictures/returns.svg', 1, f'is not what {data} gives: python3 {drawer} docs/pictures')


def check_version(pages):
    told = re.findall(r'^## \[?(\d+\.\d+\.\d+)', pages.get('docs/CHANGELOG.md', ''), re.M)
    version = re.search(r"^\s*version: '([\d.]+)'", table.read(root, 'meson.build'), re.M)
    newest = max(told, key=lambda one: [int(n) for n in one.split('.')], default=None)
    if newest and version and newest != version[1]:
        report.bad('docs/CHANGELOG.md', 1, f'its newest version is {newest}, that of meson.build {version[1]}')


files = {path: table.read(root, path) for path in table.files(root, ('.md',))}
seen = {}  # page: what it leads to
for source, content in files.items():
    check_links(source, content, files, seen)
check_reached(seen)
drawn = [path for path in table.files(root, ('.svg',)) if path.startswith('docs/')]
for source in drawn:
    check_svg(source)
check_drawn()
if os.path.exists(os.path.join(root, 'meson.build')):
    check_version(files)
report.finish(len(files) + len(drawn))
