# SPDX-License-Identifier: MIT
"""A register as the first version of confab wrote it, with what is in one of today: its schema is the first entry of
lib/store/schema.c, which never changes. What that version did not know (links to spilled memory too) is left out."""
import ast
import re
import sqlite3

APPLICATION_ID = 0x636e6662


def first_schema(source):
    with open(f'{source}/lib/store/schema.c', encoding='utf-8') as f:
        text = f.read()
    first = re.search(r'migrations\[\] = \{(.*?)/\* 2: ', text, re.S)[1]
    return ''.join(ast.literal_eval(literal) for literal in re.findall(r'"(?:[^"\\]|\\.)*"', first))


def version(path):
    with sqlite3.connect(path) as db:
        return db.execute('PRAGMA user_version').fetchone()[0]


def make(source, new, old):
    """Writes the register `old` with the conversations and turns of `new`, which no daemon has open."""
    db = sqlite3.connect(old)
    db.executescript(f'PRAGMA journal_mode = WAL; {first_schema(source)}'
                     f'PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;')
    db.execute('ATTACH ? AS new', (str(new),))
    for table in 'conversation', 'turn':
        columns = ', '.join(row[1] for row in db.execute(f'PRAGMA main.table_info({table})'))
        db.execute(f'INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}')
    db.commit()
    db.close()
