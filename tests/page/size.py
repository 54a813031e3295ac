#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""size.py: what docs/page.md says of the page's files: how large they are together, that they ask nobody else for anything, that text does
not become HTML but in one place, where raw colours may stand, who imports whom, and that it names them all."""
import os
import re
import sys

sys.dont_write_bytecode = True
import sources

SOURCE = sys.argv[4]
PAGE = os.path.join(SOURCE, 'client/gateway/page')
MOST = 250 * 1024
SPDX = 'SPDX-License-Identifier: MIT'
FIRST = {'.js': f'// {SPDX}', '.css': f'/* {SPDX} */', '.svg': None, '.html': None}

ADDRESS = re.compile(r'\b(https?|wss?|ftp)://(?!\$\{)', re.I) # http://${x} only gives URL() something to read
NAMESPACE = re.compile(r'http://www\.w3\.org/(2000/svg|1999/xlink|1999/xhtml|1998/Math/MathML)')
# Ways from text to HTML, and to code.
HTML = re.compile(r'\b(innerHTML|outerHTML|insertAdjacentHTML|setHTML\w*|createContextualFragment|parseFromString|DOMParser|srcdoc|'
                  r'document\.write(ln)?|eval|new Function|importScripts)\b')
COLOUR = re.compile(r'#[0-9a-fA-F]{3,8}\b(?![-\w])|\b(rgba?|hsla?|hwb|lab|lch|oklab|oklch|color)\(|'
                    r':[^;{]*\b(white|black|red|green|blue|gr[ae]y|silver|orange|yellow|purple|teal)\b(?!-)')
# What a module that is marked pure does not know.
IMPURE = re.compile(r'(?<![\w.])(document|window|navigator|location|fetch|localStorage|sessionStorage|setTimeout|requestAnimationFrame)\b')
SHARED = {'js/dom.js', 'js/i18n.js', 'js/format.js'}
faults = []


def bad(path, line, words):
    faults.append(f'{path}:{line}: {words}')


def find(path, text, pattern, words):
    for found in pattern.finditer(text):
        bad(path, sources.line_of(text, found.start()), f'{found[0].strip()}: {words}')


def bare(path, text):
    """Without comments."""
    if path.endswith('.js'):
        return sources.without_comments(text)
    pattern = r'<!--.*?-->' if path.endswith(('.html', '.svg')) else r'/\*.*?\*/'
    return re.sub(pattern, lambda found: re.sub(r'[^\n]', ' ', found[0]), text, flags=re.S)


def check_text(path, text):
    first = FIRST[os.path.splitext(path)[1]]
    if first and text.split('\n')[0] != first:
        bad(path, 1, f'the first line must be {first}')
    if SPDX not in '\n'.join(text.split('\n')[:2]):
        bad(path, 1, f'no {SPDX}')
    code = bare(path, text)
    find(path, NAMESPACE.sub('', code), ADDRESS, 'the page asks for nothing by an absolute address')
    find(path, code, re.compile(r'''url\(\s*['"]?(//|/|data:)|@import|(src|href|action)=["']?/|['"`]/(page|confab)/'''), 'addresses are relative')
    return code


def check_html(path, code, names):
    find(path, code, re.compile(r'<style\b|<script(?![^>]*\bsrc=)|\s(on\w+|style)\s*=', re.I), 'no inline script or style')
    for address in re.findall(r'\b(?:src|href)="([^"#]+)"', code):
        if not address.startswith('page/') or address.removeprefix('page/') not in names:
            bad(path, 0, f'{address} is not there')


def imports_of(code):
    return re.findall(r'''(?:^|[;}\s])(?:import|export)\s+(?:[\w{][^;'"]*?\s+from\s+)?'(\.[^']*)'|\bimport\('(\.[^']*)'\)''', code)


def check_js(path, code, names, graph):
    if path != 'render/safe.js':
        find(path, code, HTML, 'text becomes HTML in render/safe.js alone, and never code')
    find(path, code, re.compile(r'''setAttribute\('style'|\bstyle:\s*['"`][^'"`]*:'''), 'the policy lets no style attributes be written')
    for kind, told, place in sources.pieces(code):
        if kind == 'string' and re.fullmatch(r'''['"]#[0-9a-fA-F]{3,8}['"]''', told):
            bad(path, sources.line_of(code, place), f'{told}: raw colours stand in style/tokens.css')
    graph[path] = set()
    for one in imports_of(code):
        target = os.path.normpath(os.path.join(os.path.dirname(path), one[0] or one[1]))
        graph[path].add(target)
        if target not in names:
            bad(path, 0, f'imports {target}, which is not there')
        elif path.startswith('render/') and target.startswith('js/') and target not in SHARED:
            bad(path, 0, f'imports {target}: render/ knows of js/ only {", ".join(sorted(SHARED))}')


def reached(graph, first):
    found, pending = {first}, [first]
    while pending:
        for target in graph.get(pending.pop(), ()):
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


def check_document(names, codes, graph):
    """The list of files in docs/page.md."""
    text = sources.read(SOURCE, 'docs/page.md')
    rows = dict(re.findall(r'^    (\S+\.\w+)\s+(.*)$', text, re.M))
    for path in names:
        if path not in rows and path not in ('icon.svg', 'js/words-en.js', 'js/words-de.js'):
            bad('docs/page.md', 0, f'does not name {path}')
    for path, words in rows.items():
        if path not in names:
            bad('docs/page.md', 0, f'{path} is not there')
        elif '(pure)' in words:
            find(path, codes[path], IMPURE, 'a pure module')
            for target in graph[path]:
                if '(pure)' not in rows.get(target, ''):
                    bad(path, 0, f'a pure module imports {target}')


def main():
    names = sources.files(PAGE)
    size = sum(os.path.getsize(os.path.join(PAGE, path)) for path in names)
    if size > MOST:
        bad('.', 0, f'{size} bytes together, more than {MOST}')
    codes, graph = {}, {}
    for path in names:
        if os.path.splitext(path)[1] not in FIRST:
            bad(path, 0, 'a file of this kind is not expected')
            continue
        code = codes[path] = check_text(path, sources.read(PAGE, path))
        if path.endswith('.html'):
            check_html(path, code, names)
        elif path.endswith('.js'):
            check_js(path, code, names, graph)
        elif path.endswith('.css') and path != 'style/tokens.css':
            find(path, code, COLOUR, 'raw colours stand in style/tokens.css')
    for path in set(graph) - reached(graph, 'js/main.js'):
        bad(path, 0, 'nobody imports it')
    check_document(names, codes, graph)
    if faults:
        sys.exit('\n'.join(sorted(faults)))
    print(f'ok: {len(names)} files, {size} of {MOST} bytes')


main()
