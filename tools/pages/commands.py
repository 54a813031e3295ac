#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""commands.py TABLES TEMPLATE VERSION FOLDER PAGE...

Makes the manual pages of confab(1) and of its commands in FOLDER. TABLES is the program that writes the tables of
commands (client/confab-tables.c), TEMPLATE confab(1) with the lines @COMMANDS@ and @OPTIONS@, where those of the tables go. The
PAGEs are what the build expects: it fails if a command lacks its page, so that none is forgotten.
"""
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from roff import bold, escape, fill, inline, italic, literal, paragraphs, quote, references, title

# Verbs whose pages would have the name of a program's: they are in a section of their own.
NAMESAKES = {'model'}
PURPOSES = ('Talk', 'Conversations', 'Look', 'Memory', 'The daemon', 'More')


def words_of(command):
    """What stands for something in its usage line and options."""
    found = set(re.findall(r'[A-Z][A-Z-]*', command.get('args') or ''))
    for table in command['options']:
        for option in table if isinstance(table, list) else TABLES[table]['options']:
            found |= set(re.findall(r'[A-Z][A-Z-]*', option.get('arg') or ''))
    return found


def section(verb):
    return '1confab' if verb in NAMESAKES else '1'


def page_name(verb):
    return f'confab-{verb}({section(verb)})'


def usage(args):
    """[TEXT|@FILE|-]: what is typed as it stands is bold."""
    out = []
    for part in re.findall(r'[A-Z][A-Z-]*|--?[a-z][\w-]*|[a-z]+|[@-]|\s+|.', args):
        if re.fullmatch(r'[A-Z][A-Z-]*', part):
            out.append(italic(part))
        elif re.fullmatch(r'--?[a-z][\w-]*|[a-z]+|[@-]', part):
            out.append(bold(part))
        else:
            out.append(escape(part))
    return ''.join(out)


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def option_lines(options, words):
    lines = []
    for option in options:
        names = ([bold('-' + option['letter'])] if 'letter' in option else []) + [bold('--' + option['name'])]
        text = sentence(option['help']) + (' May be given several times.' if option['repeat'] else '')
        more = ' ' + option['more'] if 'more' in option else ''
        lines += ['.TP', ', '.join(names) + (' ' + usage(option['arg']) if 'arg' in option else '')]
        lines += fill(inline(text + more, words))
    return lines


def all_options(command, heading):
    """Its own first, then those of shared tables under their titles."""
    words, lines = words_of(command), []
    own = [option for table in command['options'] if isinstance(table, list) for option in table]
    shared = [TABLES[table] for table in command['options'] if isinstance(table, str)]
    if own or shared:
        lines.append(f'.{heading} {"OPTIONS" if heading == "SH" else "Options"}')
    lines += option_lines(own, words)
    for table in shared:
        lines.append(f'.SS {quote(table["title"])}')
        lines += paragraphs(table['text']) if 'text' in table else []
        lines += option_lines(table['options'], words)
    return lines


def synopsis(name, command):
    if 'commands' in command:
        return f'{bold("confab " + name)} {italic("COMMAND")} [{italic("ARGUMENTS")}]'
    options = f' [{italic("OPTIONS")}]' if command['options'] else ''
    return f'{bold("confab " + name)} {usage(command["args"])}'.rstrip() + options


def sub_commands(name, command):
    lines = []
    for sub in command.get('commands', []):
        path = f'{name} {sub["name"]}'
        words = words_of(sub)
        lines += [f'.SH {quote(escape(path.upper()))}', synopsis(path, sub), '.PP', *fill(inline(sub['summary'] + '.', words))]
        if 'help' in sub:
            lines += ['.PP', *paragraphs(sub['help'], words)]
        lines += all_options(sub, 'SS') + examples(sub, 'SS') + sub_commands(path, sub)
    return lines


def examples(command, heading):
    if 'examples' not in command:
        return []
    return [f'.{heading} {"EXAMPLES" if heading == "SH" else "Examples"}', *literal(command['examples'])[1:]]


def page_of(command):
    name = 'confab-' + command['name']
    words = words_of(command)
    summary = command['summary']
    lines = title(name, section(command['name']), VERSION, 'User commands')
    lines += ['.SH NAME', f'{escape(name)} \\- {inline(summary[0].lower() + summary[1:])}', '.SH SYNOPSIS', synopsis(command['name'], command),
              '.SH DESCRIPTION', *fill(inline(summary + '.', words))]
    if 'help' in command:
        lines += ['.PP', *paragraphs(command['help'], words)]
    lines += all_options(command, 'SH') + sub_commands(command['name'], command)
    lines += examples(command, 'SH')
    lines += ['.SH NOTES', *fill(inline('Options of every command, exit statuses, files and variables are those of confab(1).'))]
    lines += references(['confab(1)', *(page_name(see) for see in command.get('see', '').split()), 'confabd(8)'])
    return lines


def command_list():
    lines = []
    for purpose in PURPOSES:
        of_purpose = [c for c in COMMANDS if c['purpose'] == purpose]
        if of_purpose:
            lines.append(f'.SS {quote(purpose)}')
        for command in of_purpose:
            args = italic('COMMAND') if 'commands' in command else usage(command['args'])
            lines += ['.TP', f'{bold(command["name"])} {args}'.rstrip(),
                      *fill(inline(f'{command["summary"]}: {page_name(command["name"])}.', words_of(command)))]
    return lines


def main_page(template):
    lines = []
    for line in template.read_text(encoding='utf-8').splitlines():
        if line == '@COMMANDS@':
            lines += command_list()
        elif line == '@OPTIONS@':
            lines += option_lines(TABLES['global']['options'], {'PATH', 'UID', 'LABEL'})
        else:
            lines.append(line.replace('@VERSION@', VERSION))
    return lines


program, template_path, VERSION, folder, *expected = sys.argv[1:]
tables = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
TABLES = {table['name']: table for table in tables['tables']}
COMMANDS = tables['commands']
unknown = {c['purpose'] for c in COMMANDS} - set(PURPOSES)
if unknown:
    sys.exit(f'tools/pages/commands.py: PURPOSES lacks {", ".join(sorted(unknown))}')
pages = {'confab.1': main_page(pathlib.Path(template_path))}
for one in COMMANDS:
    pages[f'confab-{one["name"]}.{section(one["name"])}'] = page_of(one)
missing, old = set(pages) - set(expected), set(expected) - set(pages)
if missing or old:
    sys.exit(f'client/meson.build: verbs lacks {sorted(missing)}, and has {sorted(old)}, of which there is no command')
for name, content in pages.items():
    pathlib.Path(folder, name).write_text('\n'.join(content) + '\n', encoding='utf-8')
