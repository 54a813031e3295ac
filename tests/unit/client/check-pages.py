#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-pages.py SOURCE_ROOT CONFAB CONFAB-TABLES PAGE...

The manual pages, those that the build has made and those of docs/: man(1) and mandoc(1) read them without complaint;
every verb, each of its options and its summary as --help shows them, and every public function of confab.h is in its
page; and what makes the pages refuses a table or a document that it would leave something out of.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, program, tables = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
pages = {pathlib.Path(path).name: pathlib.Path(path) for path in sys.argv[4:]}
bad = []


def run(*args, **kwargs):
    return subprocess.run(args, capture_output=True, text=True, check=False, **kwargs)


def words(roff):
    """A page's words: no fonts, no escapes, no lines."""
    text = re.sub(r'\\f[BIR]', '', roff)
    for escaped, plain in (('\\-', '-'), ('\\(aq', "'"), ('\\(dq', '"'), ('\\(ti', '~'), ('\\(ha', '^'), ('\\&', ''), ('\\e', '\\')):
        text = text.replace(escaped, plain)
    return ' '.join(text.split())


def check_syntax(paths):
    """All at once; where something is wrong, one by one, since man(1) does not say which it was."""
    readers = {'mandoc': ['mandoc', '-T', 'lint', '-W', 'error'], 'man': ['man', '--warnings', '-E', 'UTF-8', '-Tutf8', '-Z', '-l']}
    for reader, command in readers.items():
        if not shutil.which(reader):
            print(f'SKIP in part: no {reader} here to read the pages')
            continue
        queue = [paths]
        for group in queue:
            result = run(*command, *group, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C.UTF-8'})
            complaint = result.stderr + (result.stdout if reader == 'mandoc' else '')
            if not complaint and not result.returncode:
                continue
            if len(group) > 1:
                queue += [[path] for path in group]
            else:
                bad.append(f'{group[0]}: {reader}: {complaint.strip()}')


def check_verbs():
    text = run(program, '--help').stdout
    verbs = re.findall(r'^  ([a-z]+) ', text.split('Options of every command')[0], re.M)
    if len(verbs) < 20:
        bad.append(f'--help lists only {len(verbs)} verbs')
    every = set(re.findall(r'^  (?:-[a-zA-Z], |    )(--[a-z-]+)', text, re.M))
    main = words(pages['confab.1'].read_text(encoding='utf-8'))
    for option in every:
        if option not in main:
            bad.append(f'confab.1 lacks {option}')
    for verb in verbs:
        page = pages.get(f'confab-{verb}.1') or pages.get(f'confab-{verb}.1confab')
        if not page:
            bad.append(f'the verb {verb} has no page')
            continue
        have = words(page.read_text(encoding='utf-8'))
        lines = run(program, verb, '--help').stdout
        # the summary is a line, or several, behind the usage
        summary = ' '.join(lines.split('\n\n')[1].split())
        options = set(re.findall(r'^  (?:-[a-zA-Z], |    )(--[a-z-]+)', lines, re.M)) - every
        for what in [summary, *sorted(options)]:
            if what not in have:
                bad.append(f'{page.name} lacks: {what}')
        if f'confab-{verb}' not in main:
            bad.append(f'confab.1 does not name the page of {verb}')


def check_functions():
    header = (root / 'client/confab.h').read_text(encoding='utf-8')
    library = words(pages['libconfab.3'].read_text(encoding='utf-8'))
    for name in re.findall(r'CONFAB_PUBLIC[^;]*?\b(confab_\w+)\(', header):
        page = pages.get(f'{name}.3')
        if not page or f'{name} - ' not in words(page.read_text(encoding='utf-8')):
            bad.append(f'the function {name} has no page')
        if name not in library:
            bad.append(f'libconfab.3 lacks {name}')
    for name, member in (('confab_request.3', 'expect_revision'), ('confab_event.3', 'prefill_usec')):
        if member not in pages[name].read_text(encoding='utf-8'):
            bad.append(f'{name} lacks {member}')


def check_groups():
    """A group of commands has a page, with a section for each of its commands: with a table made up here."""
    made_up = json.loads(run(tables).stdout)
    users = {'name': 'users', 'args': '[USER]', 'purpose': 'More', 'summary': 'What each user holds', 'help': 'Of USER alone, if it is given.',
             'binary': False, 'options': [[{'name': 'sort', 'letter': 'k', 'arg': 'KEY', 'repeat': False, 'help': 'order of the lines'}]]}
    made_up['commands'].append({'name': 'admin', 'purpose': 'The daemon', 'summary': 'Look after the daemon', 'binary': False, 'options': [],
                                'commands': [users]})
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder, 'tables')
        fake.write_text(f'#!{sys.executable}\nprint({json.dumps(made_up)!r})\n', encoding='utf-8')
        fake.chmod(0o755)
        names = [name for name in pages if name.endswith(('.1', '.1confab'))] + ['confab-admin.1']
        made = run(sys.executable, root / 'tools/pages/commands.py', fake, root / 'docs/confab.1.in', '0', folder, *names)
        if made.returncode:
            bad.append(f'commands.py: {made.stderr}')
            return
        page = pathlib.Path(folder, 'confab-admin.1')
        have = words(page.read_text(encoding='utf-8'))
        for what in ('confab admin COMMAND [ARGUMENTS]', '.SH "ADMIN USERS"', 'confab admin users [USER] [OPTIONS]',
                     'Of USER alone, if it is given.', '-k, --sort KEY Order of the lines.'):
            if what not in have:
                bad.append(f'a page of a group lacks: {what}')
        check_syntax([page])


def check_makers():
    """A page that is not expected, and Markdown that would come out as something else, are errors."""
    maker = root / 'tools/pages'
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in pages if name.endswith(('.1', '.1confab')) and name != 'confab-say.1']
        refused = run(sys.executable, maker / 'commands.py', tables, root / 'docs/confab.1.in', '0', folder, *names)
        if refused.returncode == 0 or 'confab-say.1' not in refused.stderr:
            bad.append('commands.py makes a page that nobody installs')
        for document in ('<b>x</b>\n', '```\nno end\n', '| a |\n| b |\n'):
            source = pathlib.Path(folder, 'document.md')
            source.write_text(document, encoding='utf-8')
            if run(sys.executable, maker / 'markdown.py', source, 'n', '7', 's', '0', source.with_suffix('.7')).returncode == 0:
                bad.append(f'markdown.py takes {document!r}')


check_syntax([*pages.values(), *root.glob('docs/*.[158]')])
check_verbs()
check_functions()
check_groups()
check_makers()
print('\n'.join(bad) or f'{len(pages)} pages have what they should')
sys.exit(bool(bad))
