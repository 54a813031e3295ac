# SPDX-License-Identifier: MIT
"""What the makers of manual pages have in common: text to roff, with the macros of man(7)."""
import re
import textwrap

WIDTH = 79

# In texts of tables and comments: 'confab open', `final`, name(3), --option, -n.
MARKED = re.compile(
    r"(?<![\w'])'(?P<quoted>[^'\n]+)'(?!\w)"
    r'|`(?P<code>[^`\n]+)`'
    r'|\b(?P<page>[a-z][\w-]*)\((?P<section>[1-8][a-z]*)\)'
    r'|(?<![\w-])(?P<option>--[a-z][\w-]*|-[A-Za-z]\b)'
    r'|(?P<call>\b[a-z]\w*)\(\)'
    r'|@(?P<parameter>[a-z]\w*)'
    r'|(?P<word>\b[A-Z][A-Z-]*\b)')


def escape(text):
    return text.replace('\\', '\\e').replace('-', '\\-').replace("'", '\\(aq').replace('`', '\\(ga').replace('^', '\\(ha').replace('~', '\\(ti')


def bold(text):
    return f'\\fB{escape(text)}\\fR'


def italic(text):
    return f'\\fI{escape(text)}\\fR'


def quote(text):
    """An argument of a macro."""
    return '"' + text.replace('"', '\\(dq') + '"'


def inline(text, words=(), parameters=False):
    """One paragraph of plain text; @words are those that stand for what somebody gives."""
    out, at = [], 0
    for m in MARKED.finditer(text):
        out.append(escape(text[at:m.start()]))
        at = m.end()
        if m['quoted'] or m['code']:
            out.append(bold(m['quoted'] or m['code']))
        elif m['page']:
            out.append(f'{bold(m["page"])}({m["section"]})')
        elif m['option']:
            out.append(bold(m['option']))
        elif m['call']:
            out.append(f'{bold(m["call"])}()')
        elif m['parameter'] and parameters:
            out.append(italic(m['parameter']))
        elif m['word'] and m['word'] in words:
            out.append(italic(m['word']))
        else:
            out.append(escape(m[0]))
    out.append(escape(text[at:]))
    return ''.join(out)


def fill(roff):
    """Lines of roff text, none of which is taken for a request."""
    lines = textwrap.wrap(' '.join(roff.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    return [('\\&' if line[0] in ".'" else '') + line for line in lines]


def literal(text):
    """Lines as they are, in the typewriter's way."""
    lines = [('\\&' if line[:1] in ('.', "'") else '') + escape(line) for line in text.rstrip('\n').split('\n')]
    return ['.PP', '.RS 4', '.EX', *lines, '.EE', '.RE']


def paragraphs(text, words=(), parameters=False):
    """Paragraphs with empty lines between; one that begins with a space is shown as it is."""
    lines = []
    for number, paragraph in enumerate(re.split(r'\n\n+', text.strip('\n'))):
        if paragraph.startswith(' '):
            lines += literal(textwrap.dedent(paragraph))
        else:
            lines += (['.PP'] if number else []) + fill(inline(paragraph, words, parameters))
    return lines


def title(name, section, version, manual):
    return ['.\\" SPDX-License-Identifier: MIT', '.\\" Made by tools/pages: change what it is made from.',
            f'.TH {quote(escape(name.upper()))} {section} "" {quote("confab " + version)} {quote(manual)}',
            '.nh', '.ad l']


def references(pages):
    """SEE ALSO: "confab(1)" and so on, in order, each once."""
    seen = list(dict.fromkeys(pages))
    lines = ['.SH SEE ALSO']
    for i, page in enumerate(seen):
        name, section = page[:-1].split('(')
        lines.append(f'.BR {escape(name)} ({section}){"," if i + 1 < len(seen) else ""}')
    return lines
