# SPDX-License-Identifier: MIT
"""The page's files as text: what of JavaScript is string, template, comment or code, without a JavaScript engine."""
import os
import re

REGEX_BEFORE = re.compile(r'(^|[(,=:\[!&|?{};+\-*%<>~^]|=>|\b(return|typeof|case|of|in|yield|await|else))\s*$')
REGEX = re.compile(r'/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*')
STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)


def read(folder, path):
    with open(os.path.join(folder, path), encoding='utf-8') as f:
        return f.read()


def files(folder):
    """Paths below it, sorted."""
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def pieces(text):
    """Of JavaScript: (kind, text, place), kind 'string', 'comment', 'template', 'regex' or 'code'. A template is one piece up to its end, and what
    is in its ${} comes behind it as pieces of its own."""
    found = []
    read_code(text, 0, found, False)
    return found


def read_code(text, at, found, inside):
    """Up to the end, or (`inside` of a template) to the brace that closes; returns where that is."""
    begin, before, depth = at, '', 0

    def end_code():
        if at > begin:
            found.append(('code', text[begin:at], begin))

    while at < len(text):
        c, kind, end = text[at], None, at
        if text.startswith(('//', '/*'), at):
            kind, end = 'comment', COMMENT.match(text, at).end()
        elif c in '\'"' and (match := STRING.match(text, at)):
            kind, end = 'string', match.end()
        elif c == '/' and REGEX_BEFORE.search(before) and (match := REGEX.match(text, at)):
            kind, end = 'regex', match.end()
        elif c == '`':
            end_code()
            at = begin = template_end(text, at, found)
            before = 'value'
            continue
        if kind:
            end_code()
            found.append((kind, text[at:end], at))
            if kind != 'comment':
                before = 'value' # what stands behind one divides, and begins no pattern
            at = begin = end
            continue
        depth += {'{': 1, '}': -1}.get(c, 0)
        if inside and depth < 0:
            break
        before = before[-12:] + c
        at += 1
    end_code()
    return at


def template_end(text, at, found):
    """Behind the template that begins here."""
    begin, inner, at = at, [], at + 1
    while text[at] != '`':
        if text[at] == '\\':
            at += 2
        elif text.startswith('${', at):
            at = read_code(text, at + 2, inner, True) + 1
        else:
            at += 1
    found.append(('template', text[begin:at + 1], begin))
    found += inner
    return at + 1


def without_comments(text):
    """JavaScript without what is said about it; lines stay where they are."""
    found = [(place, place + len(told)) for kind, told, place in pieces(text) if kind == 'comment']
    for first, end in reversed(found):
        text = text[:first] + re.sub(r'[^\n]', ' ', text[first:end]) + text[end:]
    return text


def value(literal):
    """What a string literal says."""
    return re.sub(r'\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)', lambda found: {'n': '\n', 't': '\t'}.get(
        found[1], found[1]) if len(found[1]) == 1 else chr(int(found[1][1:].strip('{}'), 16)), literal[1:-1])


def line_of(text, place):
    return text.count('\n', 0, place) + 1
