#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""library.py HEADER VERSION FOLDER PAGE...

Makes the manual pages of libconfab in FOLDER from its header: libconfab(3), which is its opening comment and the list of
functions; a page for each function, which is its prototype and the comment above it; confab_request(3) and confab_event(3),
which are the declarations of what is sent and what comes back. The PAGEs are what the build expects.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from roff import bold, escape, fill, inline, literal, paragraphs, references, title

SECTION = re.compile(r'^/\* ---- (.*) ---- \*/$', re.M)
# A comment, and the functions (and types of functions) that follow it without an empty line or another comment.
GROUP = re.compile(r'/\*(?P<comment>(?:[^*]|\*(?!/))*)\*/\n(?P<code>(?:(?!/\*)[^\n]+\n)*?(?:CONFAB_PUBLIC|typedef)[^\n]*\n(?:(?!/\*)[^\n]+\n)*)')
FUNCTION = re.compile(r'CONFAB_PUBLIC\s+(?P<prototype>[^;]*?\b(?P<name>confab_\w+)\([^;]*;)')
# What two pages show, beside the functions of the section.
DECLARATIONS = {'confab_request': ('requests', 'what is asked of confabd', 'struct confab_request'),
                'confab_event': ('events', 'what confabd answers', 'struct confab_event')}


def words(comment):
    """The words of a comment, without its stars; a list or an indented block stays as it is."""
    lines = [re.sub(r'^ ?\* ?', '', line) for line in comment.strip().split('\n')]
    return '\n'.join(line.rstrip() for line in lines)


def first_sentence(text):
    without = re.sub(r' \([^()]*\)', '', ' '.join(text.split()))
    sentence = re.split(r'(?<=[.:;])\s', without, maxsplit=1)[0].rstrip('.:;')
    return sentence[0].lower() + sentence[1:] if not re.match(r'[A-Z]{2}|POLL', sentence) else sentence


def essay(text):
    """The opening comment: paragraphs, and a list of lines that begin with a dash."""
    lines = []
    for block in re.split(r'\n\n+', text):
        if block.lstrip().startswith('- '):
            for item in re.split(r'\n?\s*- ', block.strip())[1:] if block.strip().startswith('- ') else []:
                lines += ['.IP \\(bu 4', *fill(inline(' '.join(item.split()), parameters=True))]
            lines.append('.PP')
        else:
            lines += ([] if not lines or lines[-1] == '.PP' else ['.PP']) + fill(inline(' '.join(block.split()), parameters=True))
    return lines


def functions(header):
    """name -> (prototypes that share its comment, comment), in the header's order."""
    found = {}
    for group in GROUP.finditer(header):
        comment = words(group['comment'])
        for function in FUNCTION.finditer(group['code']):
            found[function['name']] = (group['code'].replace('CONFAB_PUBLIC ', ''), comment)
    return found


def head(name, summary):
    return [*title(name, 3, VERSION, 'libconfab'), '.SH NAME', f'{escape(name)} \\- {inline(summary, parameters=True)}']


def synopsis(code):
    return ['.SH SYNOPSIS', '.EX', '#include <confab.h>', '', *literal(code)[3:-2], '.EE', '.PP', *fill('Link with ' + bold('-lconfab') + '.')]


def function_page(name, code, comment):
    lines = head(name, first_sentence(comment)) + synopsis(code)
    lines += ['.SH DESCRIPTION', *paragraphs(comment, parameters=True)]
    if re.search(rf'\bint {name}\(.*struct confab_error \*e', code, re.S):
        lines += ['.SH RETURN VALUE', *fill(inline('0 unless it is said otherwise above, or -1 with *@e filled (@e may be NULL): its code is one of '
                                                   'those in confab.h, its message one sentence.', parameters=True))]
    return lines + references(['libconfab(3)', 'confab_request(3)', 'confab_event(3)'])


def declaration_page(name, header):
    section, summary, what = DECLARATIONS[name]
    starts = {m[1]: m for m in SECTION.finditer(header)}
    start = starts[section]
    later = [m.start() for m in starts.values() if m.start() > start.end()]
    code = header[start.end():min(later)].strip('\n')
    return [*head(name, f'{what}: {summary}'), '.SH SYNOPSIS', '.EX', '#include <confab.h>', '.EE', '.SH DESCRIPTION',
            *literal(code)[1:], *references(['libconfab(3)', 'confab_submit(3)', 'confab\\-protocol(7)'.replace('\\', '')])]


def library_page(header, found):
    opening = words(re.search(r'/\*\n( \* libconfab:.*?)\*/', header, re.S)[1])
    summary, _, rest = opening.partition('\n\n')
    lines = head('libconfab', summary.removeprefix('libconfab: ').rstrip('.'))
    lines += ['.SH SYNOPSIS', '.EX', '#include <confab.h>', '.EE', '.PP', *fill('Flags of compiler and linker: ' + bold('pkg-config --cflags --libs confab') + '.')]
    lines += ['.SH DESCRIPTION', *essay(rest), '.SH FUNCTIONS']
    for name, (_, comment) in found.items():
        lines += ['.TP', f'.BR {name} (3)', *fill(inline(first_sentence(comment) + '.', parameters=True))]
    return lines + references([*(f'{name}(3)' for name in DECLARATIONS), 'confab-protocol(7)', 'confabd(8)', 'confab(1)'])


header_path, VERSION, folder, *expected = sys.argv[1:]
text = pathlib.Path(header_path).read_text(encoding='utf-8')
all_functions = functions(text)
declared = set(re.findall(r'CONFAB_PUBLIC[^;]*?\b(confab_\w+)\(', text))
if declared != set(all_functions):
    sys.exit(f'confab.h: no comment stands above {", ".join(sorted(declared - set(all_functions)))}')
pages = {'libconfab.3': library_page(text, all_functions)}
pages |= {f'{name}.3': declaration_page(name, text) for name in DECLARATIONS}
pages |= {f'{name}.3': function_page(name, *what) for name, what in all_functions.items()}
missing, old = set(pages) - set(expected), set(expected) - set(pages)
if missing or old:
    sys.exit(f'client/meson.build: functions lacks {sorted(missing)}, and has {sorted(old)}, which confab.h has not')
for page_name, content in pages.items():
    pathlib.Path(folder, page_name).write_text('\n'.join(content) + '\n', encoding='utf-8')
