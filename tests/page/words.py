#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""words.py: the page's words. All languages have the same keys with the same {values}; what the page asks for is there, with the values that it
needs, and nothing is there that nobody asks for."""
import os
import re
import sys

sys.dont_write_bytecode = True
import sources

PAGE = os.path.join(sys.argv[4], 'client/gateway/page')
CODES = os.path.join(sys.argv[4], 'docs/http.md')
faults = []


def bad(path, line, words):
    faults.append(f'{path}:{line}: {words}')


# ---- words-*.js: an object of texts, of plural forms, and of groups of both ----

def parse_words(path):
    """{key: ({form: text}, line)}; a text without forms has the form None."""
    text = sources.read(PAGE, path)
    tokens = []
    for kind, told, place in sources.pieces(text[text.index('export default') + len('export default'):]):
        if kind == 'string':
            tokens.append(('string', sources.value(told), place))
        elif kind == 'code':
            tokens += [('name' if one[0][0].isalpha() else one[0], one[0], place + one.start()) for one in re.finditer(r'\w+|[{}:,+;]', told)]
        elif kind != 'comment':
            bad(path, 0, f'{told[:40]}: only texts are expected')
    shift = text.index('export default')
    words, at = {}, 1

    def take(kinds):
        nonlocal at
        kind, told, place = tokens[at]
        if kind not in kinds:
            sys.exit(f'{path}:{sources.line_of(text, shift + place)}: {told}: expected {" or ".join(kinds)}')
        at += 1
        return told, place

    def take_text():
        told, _ = take(['string'])
        while tokens[at][0] == '+':
            take(['+'])
            told += take(['string'])[0]
        return told

    def take_forms():
        forms = {}
        for form in take_keys():
            forms[form] = take_text()
        return forms

    def take_keys():
        nonlocal at
        while tokens[at][0] != '}':
            key, place = take(['string', 'name'])
            take([':'])
            take_keys.line = sources.line_of(text, shift + place)
            yield key
            if tokens[at][0] == ',':
                take([','])
        take(['}'])

    def take_group(prefix):
        nonlocal at
        for key in take_keys():
            key, line = prefix + key, take_keys.line
            if tokens[at][0] == '{':
                take(['{'])
                if not tokens[at][1].strip("'") in ('one', 'other'):
                    take_group(key + '.')
                    continue
                forms = take_forms()
            else:
                forms = {None: take_text()}
            if key in words:
                bad(path, line, f'{key} is there twice')
            words[key] = forms, line

    take_group('')
    return words


def values_of(forms):
    return {name for text in forms.values() for name in re.findall(r'\{(\w+)\}', text)}


def check_alike(languages):
    english = languages['js/words-en.js']
    for path, words in languages.items():
        for key in english.keys() - words.keys():
            bad(path, 0, f'{key} is missing')
        for key in words.keys() - english.keys():
            bad(path, words[key][1], f'{key} is not in English')
        for key in words.keys() & english.keys():
            forms, line = words[key]
            if values_of(forms) != values_of(english[key][0]):
                bad(path, line, f'{key} has {sorted(values_of(forms))}, English has {sorted(values_of(english[key][0]))}')
            if (None in forms) != (None in english[key][0]):
                bad(path, line, f'{key} has plurals in one language only')
            if None not in forms and ('other' not in forms or 'n' not in values_of(forms) and len(set(forms.values())) > 1 and 'one' not in forms):
                bad(path, line, f'{key} lacks a plural form')
            if not all(text.strip() for text in forms.values()):
                bad(path, line, f'{key} says nothing')


# ---- what is asked for ----

def given_values(text, at):
    """The names in the object that follows a key, or None if they are not to be seen."""
    if text[at] == ')':
        return set()
    found = re.compile(r',\s*\{').match(text, at)
    if not found:
        return None
    depth, names, expects, at = 1, set(), True, found.end()
    while depth:
        c = text[at]
        if c in '\'"`':
            at = sources.template_end(text, at, []) if c == '`' else sources.STRING.match(text, at).end()
            continue
        if depth == 1 and expects and (name := re.compile(r'\w+').match(text, at)):
            names.add(name[0])
            expects, at = False, name.end()
            continue
        if depth == 1 and text.startswith('...', at):
            return None
        depth += {'{': 1, '(': 1, '[': 1, '}': -1, ')': -1, ']': -1}.get(c, 0)
        expects = expects or (c == ',' and depth == 1)
        at += 1
    return names


def pattern_of(template):
    """A pattern for what a template like `act.${verb}.done` may become; None if it may become anything."""
    fixed = re.split(r'\$\{.*?\}', template[1:-1])
    if len(fixed) < 2 or not re.match(r'[a-z]\w*\.', fixed[0]):
        return None
    return r'[\w.]+'.join(map(re.escape, fixed))


def check_uses(path, english, used):
    text = sources.read(PAGE, path)
    code = sources.without_comments(text)
    for kind, told, place in sources.pieces(text):
        line = sources.line_of(text, place)
        asked = re.search(r'(?<![\w.])(t|hasWords)\($', code[:place])
        if kind == 'string':
            key = sources.value(told)
            if key in english:
                used.add(key)
            if asked and key not in english:
                bad(path, line, f'there are no words for {key}')
            elif asked and asked[1] == 't':
                given = given_values(code, place + len(told))
                needed = values_of(english[key][0]) | ({'n'} if None not in english[key][0] else set())
                if given is not None and given != needed:
                    bad(path, line, f'{key} has the values {sorted(needed)}, and is given {sorted(given)}')
        elif kind == 'template' and (pattern := pattern_of(told)):
            found = {key for key in english if re.fullmatch(pattern, key)}
            used |= found
            if asked and not found:
                bad(path, line, f'there are no words like {told}')


def check_codes(english):
    """Each code of the interface has its sentence, and what is to be done."""
    with open(CODES, encoding='utf-8') as f:
        rows = [line for line in f.read().split("## confab's own")[1].split('\n## ')[0].splitlines() if re.match(r'\| [\d, ]+ \|', line)]
    codes = {code for row in rows for code in re.findall(r'`([a-z_]+)`', row.split('|')[2])}
    if len(codes) < 15:
        bad('docs/http.md', 0, f'the codes of errors are not found: {sorted(codes)}')
    for code in sorted(codes):
        for key in f'error.{code}', f'error.{code}.do':
            if key not in english:
                bad('js/words-en.js', 0, f'{key} is missing')


def main():
    paths = [path for path in sources.files(PAGE) if path.endswith('.js')]
    languages = {path: parse_words(path) for path in paths if re.search(r'/words-\w+\.js$', path)}
    english = languages['js/words-en.js']
    check_alike(languages)
    used = set()
    for path in paths:
        if path not in languages:
            check_uses(path, english, used)
    for key in english.keys() - used:
        bad('js/words-en.js', english[key][1], f'nobody asks for {key}')
    check_codes(english)
    if faults:
        sys.exit('\n'.join(sorted(faults)))
    print(f'ok: {len(english)} words in {len(languages)} languages')


main()
