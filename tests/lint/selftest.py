#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""selftest.py ROOT CC: each check passes on a clean tree and fails on each deliberate violation."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import table

root = os.path.abspath(sys.argv[1])
compiler = sys.argv[2:]
here = os.path.dirname(os.path.abspath(__file__))
SPDX = '/* SPDX-License-Identifier: MIT */\n'

ALERT = '      - alert: {}\n        expr: up == 0\n        labels: {{severity: info}}\n        annotations:\n' \
        '          summary: a\n          description: b\n          remedy: c\n'
TARGET = {'refId': 'A', 'expr': 'up{instance=~"$instance"}', 'datasource': {'uid': '${datasource}'}}


def board(variable='instance', second=(), **more):
    """A dashboard of two panels; what differs of the second, which lies beside the first, and of both."""
    panels = [{'id': i, 'type': 'stat', 'title': f'panel {i}', 'description': 'It is up.', 'targets': [TARGET], 'unit': 'none',
               'gridPos': {'x': 12 * i, 'y': 0, 'w': 12, 'h': 4}} | more for i in range(2)]
    panels[1].update(second)
    variables = [{'name': 'datasource', 'type': 'datasource'},
                 {'name': variable, 'type': 'query', 'query': {'query': 'label_values(up, instance)'}}]
    return json.dumps({'uid': 'abcdefgh', 'title': 'A', 'panels': panels, 'templating': {'list': variables}})


CLEAN = {
    'lib/base/err.h': SPDX + '#pragma once\nstruct err;\n',
    'lib/base/err.c': SPDX + '#include "base/err.h"\n#include <stddef.h>\n',
    'lib/base/meson.build': "lib_base = 1\n",
    'lib/seq/seq.h': SPDX + '#pragma once\n#include "base/err.h"\nint seq_f(int a);\n',
    'lib/seq/inner.h': SPDX + '#pragma once\n',
    'lib/seq/seq.c': SPDX + '#include "seq/seq.h"\n#include "seq/inner.h"\n\n'
                            'int seq_f(int a) {\n        return a;\n}\n',
    'lib/seq/meson.build': "lib_seq = [dep_base, dep_seq] # dep_engine\n",
    'lib/spill/spill.c': SPDX + '#include "base/err.h"\n#include <lz4.h>\n',
    'lib/spill/spill.h': SPDX + '#pragma once\n',
    'lib/store/store.h': SPDX + '#pragma once\n',
    'lib/engine/engine.h': SPDX + '#pragma once\n',
    'lib/engine/io/io.h': SPDX + '#pragma once\nint io_f(void);\n',
    'lib/engine/io/state.h': SPDX + '#pragma once\n',
    'lib/engine/io/io.c': SPDX + '#include "engine/io/io.h"\n#include "engine/io/state.h"\n\n'
                                 'int io_f(void) {\n        return 1;\n}\n',
    'lib/engine/conv/conv.h': SPDX + '#pragma once\nint conv_f(void);\nint conv_g(void);\n',
    'lib/engine/conv/conv.c': SPDX + '#include "engine/conv/conv.h"\n#include "engine/io/io.h"\n\n'
                                     'int conv_f(void) {\n        return io_f();\n}\n',
    'lib/engine/conv/rec.c': SPDX + '#include "engine/conv/conv.h"\n\n'
                                    'int conv_g(void) {\n        return conv_f();\n}\n',
    'proto/proto.h': SPDX + '#pragma once\n',
    'daemon/main.c': SPDX + '#include "engine/engine.h"\n#include <event2/event.h>\n#include <stdlib.h>\n\n'
                            'static void die(void) {\n        exit(1);\n}\n',
    'daemon/method-open.c': SPDX + '#include "proto/proto.h"\n\nstruct Confab__V1__Open;\n',
    'daemon/peer.c': SPDX + '#include <stdlib.h>\n\nstatic const char *f(void) {\n'
                            '        return getenv("NOTIFY_SOCKET");\n}\n',
    'daemon/users.c': SPDX + 'int h(void);\nint g(void);\nint g(void) {\n        return 1;\n}\n'
                             'int (*const all[])(void) = {h};\n',
    'tools/check': '#!/usr/bin/env bash\n# SPDX-License-Identifier: MIT\ntrue\n',
    'tests/unit/seq/test-seq.c': SPDX + '#include "seq/seq.h"\n#include "seq/inner.h"\n#include <cmocka.h>\n',
    'tools/confab-model/verb-bench.c': SPDX + 'const char *help = "  --kv TYPE  of the memory\\n";\n',
    'docs/confab-model.1': '.SH VERBS\n.TP\n.B bench\nMeasure,\n.B \\-\\-kv\n.TP\n.B fsck\n.B \\-\\-more\n'
                           '.SH OPTIONS\n.B \\-\\-json\n',
    'tests/mutants/seq/Q01-sum.patch': 'The sum is forgotten.\nSuites: seq/seq\n\n--- a/lib/seq/seq.c\n'
                                       '+++ b/lib/seq/seq.c\n@@\n-        return a;\n+        return 0;\n',
    'proto/confab.proto': 'enum Mood { MOOD_UNSPECIFIED = 0; MOOD_GOOD = 1; } // of Open\n'
                          'message Open { optional string a_b = 1; }\nmessage Request { oneof verb { Open open = 1; } }\n',
    'client/node/index.d.ts': f'// {SPDX[3:-4]}\nexport type Mood = \'unspecified\' | \'good\';\n'
                              'export interface OpenFields {\n  aB?: string;\n}\n  open(a): void;\n',
    'client/node/lib/client.js': f'// {SPDX[3:-4]}\nexport const client = {{\n  open(a) {{}},\n}};\n',
    'client/node/lib/verbs.js': f'// {SPDX[3:-4]}\nexport const VERBS = {{\n  open: 1,\n}};\n',
    'client/node/package.json': '{"type": "module"}\n',
    'tools/clients/versions.json': '{"node": {"a": "1.2.3"}}\n',
    'tools/clients/parts/node': '#!/bin/sh\n# SPDX-License-Identifier: MIT\ntrue\n',
    'docs/monitoring.md': '### ConfabDown\n',
    'docs/monitoring/confab-alerts.yml': ALERT.format('ConfabDown'),
    'docs/monitoring/confab-dashboard.json': board(),
    'tools/monitoring/dashboard.py': f'# {SPDX[3:-4]}\nimport sys\nsys.stdout.write({board()!r})\n',
    'models/make.py': '#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\nprint(1)\n',
    'tests/lint/protocol.txt': 'Mood.MOOD_GOOD: value = 1\nMood.MOOD_UNSPECIFIED: value = 0\nOpen.a_b: optional string = 1\n'
                               'Request.open: oneof Open = 1\n',
    'meson.build': "project(\n        'confab',\n        version: '0.2.0')\n",
    'docs/README.md': '# Pages\n\n- [one](one.md#what-it-is), [changes](CHANGELOG.md)\n- [the man page](confab-model.1)\n',
    'docs/one.md': '# One\n\n## What it `is`\n\n![a picture](pictures/a.svg)\n\n    [code](is/no/link)\n',
    'docs/CHANGELOG.md': '# Changes\n\n## 0.2.0\n\n## 0.1.0\n',
    'docs/pictures/a.svg': '<svg xmlns="http://www.w3.org/2000/svg"><a href="#b"/></svg>\n',
}
CLEAN.update((f'{prefix}{name}.c', SPDX + f'int ladder_{name}(void);\nint ladder_{name}(void) {{\n        return 1;\n}}\n')
             for prefix, names in table.LADDERS.items() for name in names)


def body(n, comment=''):
    return f'int seq_g(int a);\n{comment}int seq_g(int a) {{\n' + '        a++;\n' * n + '        return a;\n}\n'


def mutant(head, line='        return a;'):
    return f'{head}\n\n--- a/lib/seq/seq.c\n+++ b/lib/seq/seq.c\n@@\n-{line}\n+        return 1;\n'


# check, file, what is put at its end, words of the complaint, and which file it names if not this one
CASES = [
    ('layers', 'lib/seq/seq.c', '#include "engine/engine.h"\n', 'seq may not use engine'),
    ('layers', 'lib/base/err.c', '#include "seq/seq.h"\n', 'base may not use seq'),
    ('layers', 'lib/seq/seq.c', '#include "spill/spill.h"\n', 'seq may not use spill'),
    ('layers', 'lib/engine/engine.c', SPDX + '#include "seq/inner.h"\n', 'seq/inner.h is private'),
    ('layers', 'lib/engine/engine.c', SPDX + '#include "proto/proto.h"\n', 'engine may not use proto'),
    ('layers', 'daemon/peer.c', '#include "seq/seq.h"\n', 'daemon may not use seq'),
    ('layers', 'daemon/peer.c', 'struct Confab__V1__Open;\n', 'belong into the method files'),
    ('layers', 'client/say.c', SPDX + '#include "engine/engine.h"\n', 'client may not use engine'),
    ('layers', 'tools/confab-model/info.c', SPDX + '#include "seq/inner.h"\n', 'seq/inner.h is private'),
    ('layers', 'lib/seq/seq.c', '#include <lz4.h>\n', 'seq may not use liblz4'),
    ('layers', 'lib/seq/seq.c', '#include <event2/event.h>\n', 'seq may not use libevent'),
    ('layers', 'client/say.c', SPDX + '#include <systemd/sd-daemon.h>\n', 'client may not use libsystemd'),
    ('layers', 'lib/engine/engine.c', SPDX + '#include <sqlite3.h>\n', 'engine may not use libsqlite3'),
    ('layers', 'daemon/peer.c', '#include <protobuf-c/protobuf-c.h>\n', 'daemon may not use libprotobuf-c'),
    ('layers', 'lib/seq/seq.c', '#include <immintrin.h>\n', 'seq may not use instruction sets'),
    ('layers', 'lib/spill/write.c', '#include <immintrin.h>\n', 'spill may not use instruction sets'),
    ('layers', 'lib/seq/seq.c', '#include <curl/curl.h>\n', 'is no header of libc'),
    ('layers', 'lib/seq/seq.c', '#include "base/err.c"\n', '.c file is included'),
    ('layers', 'tests/unit/seq/test-seq.c', '#include "store/store.h"\n', 'seq may not use store'),
    ('layers', 'lib/seq/meson.build', 'x = dep_store\n', 'seq may not depend on store'),
    ('layers', 'lib/engine/io/io.c', '#include "engine/conv/conv.h"\n', 'conv, which is above'),
    ('layers', 'lib/engine/conv/conv.c', '#include "engine/io/state.h"\n', 'private to the floor io'),
    ('layers', 'lib/engine/engine.h', '#include "engine/io/io.h"\n', 'nothing below the floors'),
    ('layers', 'lib/engine/more/more.c', SPDX + 'int x;\n', 'in no floor'),
    ('circles', 'lib/engine/io/io.c', 'int conv_f(void);\nint io_g(void);\nint io_g(void) {\n'
                                      '        return conv_f();\n}\n', 'conv.c, a floor above'),
    ('circles', 'lib/engine/conv/conv.c', 'int conv_h(void);\nint conv_h(void) {\n        return conv_g();\n}\n',
     '2 files in a circle, 1 may be'),
    ('circles', 'daemon/peer.c', 'int h(void);\nint g(void);\nint h(void) {\n        return g();\n}\n',
     '2 files in a circle, 1 may be'),
    ('circles', 'daemon/peer.c', 'extern int (*const all[])(void);\nint h(void);\nint h(void) {\n'
                                 '        return all[0]();\n}\n', '2 files in a circle, 1 may be'),
    ('circles', 'client/gateway/http-turn.c', 'int ladder_conn(void);\nint t(void);\nint t(void) {\n'
                                              '        return ladder_conn();\n}\n', 'http-conn.c, which is above it'),
    ('circles', 'client/gateway/http-more.c', SPDX, 'has no place on its ladder'),
    ('mutants', 'lib/seq/seq.c', 'int seq_h(int a) {\n        return a;\n}\n', 'its lines are 2 times in'),
    ('mutants', 'tests/mutants/seq/Q02.patch', mutant('One.\nSuites: seq/seq', 'gone;'), 'its lines are gone'),
    ('mutants', 'tests/mutants/seq/Q02.patch', mutant('One.\nSuites: seq/none'), 'there is no test seq/none'),
    ('mutants', 'tests/mutants/seq/Q02.patch', mutant('One.'), 'one of Suites and Equivalent'),
    ('mutants', 'tests/mutants/seq/Q01-b.patch', mutant('One.\nSuites: seq/seq'), 'is the id of'),
    ('sizes', 'lib/seq/seq.c', body(101), 'a function of'),
    ('sizes', 'lib/seq/seq.c', '\n' * 1500, 'more than 1500 lines'),
    ('text', 'lib/seq/seq.c', '/* TO' 'DO: more */\n', 'unfinished'),
    ('text', 'docs/design.md', 'This is a place' 'holder.\n', 'unfinished'),
    ('text', 'docs/design.md', 'See /wo' 'rk/x.\n', 'path of one machine'),
    ('text', 'docs/design.md', 'It is in `lib/seq/more.c`.\n', 'there is no lib/seq/more.c'),
    ('text', 'docs/design.md', '| It is added up | `lib/seq/seq.c` | `seq_h()` |\n', 'has no seq_h()'),
    ('text', 'docs/design.md', 'a \n', 'white space'),
    ('text', 'docs/design.md', 'a', 'no newline'),
    ('text', 'lib/seq/more.c', '#include <stddef.h>\n', 'the first line'),
    ('text', 'lib/seq/more.h', SPDX, 'without #pragma once'),
    ('text', 'tools/more', '#!/bin/sh\n', 'SPDX'),
    ('text', 'lib/seq/seq.c', 'static void f(void) {\n        exit(1);\n}\n', 'ends the process'),
    ('text', 'daemon/peer.c', 'static void g(void) {\n        abort();\n}\n', 'ends the process'),
    ('text', 'lib/seq/seq.c', 'static void f(void) {\n        printf("x");\n}\n', 'lib/ prints'),
    ('text', 'lib/seq/seq.c', 'static float f(float x) {\n        return expf(x);\n}\n', 'libm'),
    ('text', 'daemon/peer.c', 'static int g(pthread_t *t) {\n        return pthread_create(t, NULL, h, NULL);\n}\n', 'takes signals'),
    ('text', 'lib/seq/seq.c', '#if defined(__x86_64__)\n#endif\n', 'instruction sets'),
    ('text', 'lib/seq/seq.c', 'typedef struct err err;\n', 'typedef'),
    ('text', 'lib/seq/seq.c', 'static void f(void) {\n        getenv("HOME");\n}\n', 'environment'),
    ('text', 'daemon/peer.c', 'static void g(void) {\n        getenv("CONFAB_POOL");\n}\n', 'environment'),
    ('text', 'daemon/peer.c', 'static void g(const char *s) {\n        getenv(s);\n}\n', 'environment'),
    ('text', 'tools/confab-model/verb-bench.c', 'const char *more = "  -m, --more N  of it\\n";\n',
     '--more is not in the page'),
    ('headers', 'lib/seq/seq.h', 'size_t seq_n(void);\n', 'does not compile alone'),
    ('headers', 'lib/seq/inner.h', 'static const int seq_x = "a";\n', 'does not compile alone'),
    ('format', 'lib/seq/seq.c', 'int  seq_h;\n', 'clang-format'),
    ('scripts', 'tools/check', 'if then\n', 'syntax error'),
    ('scripts', 'models/make.py', 'def f(:\n', 'invalid syntax'),
    ('scripts', 'tools/more', '#!/bin/sh\ntrue\n', 'not executable'),
    ('clients', 'proto/confab.proto', 'enum Tone { TONE_UNSPECIFIED = 0; }\n', 'Tone has no', 'client/node/index.d.ts'),
    ('clients', 'proto/confab.proto', 'message New { optional bool a = 1; }\n', 'no interface of New', 'client/node/index.d.ts'),
    ('clients', 'tools/clients/parts/more', '#!/bin/sh\n', 'is not executable'),
    ('protocol', 'proto/confab.proto', 'message New { optional bool a = 1; }\n', 'New.a is not recorded'),
    ('protocol', 'tests/lint/protocol.txt', 'Open.c: optional bool = 7\n', 'is gone', 'proto/confab.proto'),
    ('protocol', 'tests/lint/protocol.txt', 'Open.old: optional bool = 1\nOpen.a_b: optional string = 2\n', 'was "optional string = 2"',
     'proto/confab.proto'),
    ('docs', 'docs/one.md', 'See [two](two.md).\n', 'there is no docs/two.md'),
    ('docs', 'docs/one.md', 'See [below](#nothing).\n', 'has no heading #nothing'),
    ('docs', 'docs/README.md', 'See [one](one.md#What-it-is).\n', 'has no heading #What-it-is'),
    ('docs', 'docs/two.md', '# Two\n', 'no links lead to two.md', 'docs/README.md'),
    ('docs', 'docs/pictures/b.svg', '<svg/>', 'no page shows it'),
    ('docs', 'docs/pictures/a.svg', '<more/>', 'is not well-formed'),
    ('docs', 'docs/pictures/b.svg', '<svg><script/></svg>', 'has <script>'),
    ('docs', 'docs/pictures/b.svg', '<svg onload="f()"/>', 'has onload'),
    ('docs', 'docs/pictures/b.svg', '<svg><style>@import "x.css"</style></svg>', 'loads something'),
    ('docs', 'docs/CHANGELOG.md', '## 0.10.0\n', 'its newest version is 0.10.0'),
    ('docs', 'docs/one.md', '![b](pictures/b.svg)\n', 'there is no docs/pictures/b.svg'),
    ('javascript', 'client/node/lib/verbs.js', 'export {{;\n', 'SyntaxError'),
    ('monitoring', 'tools/monitoring/dashboard.py', 'print()\n', 'is not what', 'confab-dashboard.json'),
    ('monitoring', 'tools/monitoring/dashboard.py', 'sys.exit("no")\n', 'fails: no'),
    ('monitoring', 'docs/monitoring/b.json', board(second={'id': 0}), 'two panels have one id'),
    ('monitoring', 'docs/monitoring/b.json', board(second={'gridPos': {'x': 13, 'y': 0, 'w': 12, 'h': 4}}), 'not inside of 24 columns'),
    ('monitoring', 'docs/monitoring/b.json', board(second={'gridPos': {'x': 11, 'y': 3, 'w': 12, 'h': 4}}), 'lies on panel 0'),
    ('monitoring', 'docs/monitoring/b.json', board(second={'title': ''}), 'no title'),
    ('monitoring', 'docs/monitoring/b.json', board().replace('abcdefgh', 'a'), 'no uid of 8 to 40'),
    ('monitoring', 'docs/monitoring/b.json', board().replace('label_values(up, instance)', 'up'), 'is no label_values'),
    ('monitoring', 'docs/monitoring/b.json', board(type='graph'), 'no type that is known'),
    ('monitoring', 'docs/monitoring/b.json', board(description=''), 'no description'),
    ('monitoring', 'docs/monitoring/b.json', board(unit='furlongs'), 'unit furlongs is not known'),
    ('monitoring', 'docs/monitoring/b.json', board(targets=[]), 'no queries'),
    ('monitoring', 'docs/monitoring/b.json', board(targets=[TARGET, TARGET]), 'two of one refId'),
    ('monitoring', 'docs/monitoring/b.json', board(targets=[TARGET | {'expr': ''}]), 'without refId or expr'),
    ('monitoring', 'docs/monitoring/b.json', board(targets=[TARGET | {'datasource': {'uid': 'mine'}}]), 'names a data source'),
    ('monitoring', 'docs/monitoring/b.json', board(variable='place'), 'variable place is not used'),
    ('monitoring', 'docs/monitoring/b.json', board(variable='place'), 'variable instance is not defined'),
    ('monitoring', 'docs/monitoring/confab-alerts.yml', ALERT.format('ConfabSlow'), 'ConfabSlow has no heading', 'docs/monitoring.md'),
    ('monitoring', 'docs/monitoring/confab-alerts.yml', ALERT.format('ConfabDown').replace('remedy', 'hint'), 'ConfabDown has no remedy'),
    ('monitoring', 'docs/monitoring/confab-alerts.yml', ALERT.format('ConfabDown').replace('info', 'loud'), 'ConfabDown has no severity'),
    ('monitoring', 'docs/monitoring.md', '### ConfabGone\n', 'there is no alert ConfabGone'),
    ('text', 'client/node/lib/more.js', 'export {};\n', 'SPDX'),
    ('tree', 'notes.md', 'x\n', 'no place at the top'),
    ('tree', 'src/seq.c', SPDX, 'no place at the top'),
    ('tree', 'tests/unit/pid', '1\n', 'left behind'),
    ('tree', 'tests/unit/boot.log', 'x\n', 'left behind'),
    ('tree', 'lib/seq/seq.c.orig', SPDX, 'left behind'),
    ('tree', 'daemon/core.117', 'x', 'left behind'),
]

# Additions that must stay allowed.
FINE = [
    ('circles', 'client/gateway/http-conn.c', 'int ladder_turn(void);\nint c(void);\nint c(void) {\n'
                                              '        return ladder_turn();\n}\n'),
    ('circles', 'daemon/peer.c', 'int g(void);\nint k(void);\nint k(void) {\n        return g();\n}\n'),
    ('sizes', 'lib/seq/seq.c', body(101, '/* lint: long because it is a table */\n')),
    ('text', 'docs/design.md', '| It is in `lib/seq` | `lib/seq/seq.c` | `seq_f()` |\n'),
    ('text', 'lib/seq/seq.c', '/* "exit(1)" and printf() are only named */\nstatic const char *s = "abort()";\n'),
    ('text', 'lib/seq/seq.c', 'static void f(char *s) {\n        snprintf(s, 1, "x");\n}\n'),
    ('text', 'tools/confab-model/verb-bench.c', 'const char *json = "  --json  one object\\n";\n'),
    ('layers', 'lib/seq/seq.c', '#include <sys/mman.h>\n#include <pthread.h>\n'),
    ('tree', 'lib/seq/seq-log.c', SPDX),
    ('tree', 'build/notes.log', 'x\n'),
]


def make_tree(folder):
    for path, text in CLEAN.items():
        put(folder, path, text)
    for path in ('tools/check', 'tools/clients/parts/node', 'models/make.py'):
        os.chmod(os.path.join(folder, path), 0o755)
    put(folder, '.clang-format', pathlib.Path(root, '.clang-format').read_text(encoding='utf-8'))
    commands = [{'directory': folder, 'file': f'{folder}/{p}', 'arguments': [*compiler, '-Ilib', '-c', p],
                 'output': f'build/{p}.o'} for p in CLEAN if p.endswith('.c')]
    put(folder, 'build/compile_commands.json', json.dumps(commands))
    put(folder, 'build/meson-info/intro-tests.json', json.dumps([{'name': 'seq/seq'}]))


def put(folder, path, text, mode='w'):
    full = pathlib.Path(folder, path)
    full.parent.mkdir(parents=True, exist_ok=True)
    with full.open(mode, encoding='utf-8') as f:
        f.write(text)


def compile_room(folder, room):
    for path in [p for p in CLEAN if p.startswith(room) and p.endswith('.c')]:
        pathlib.Path(folder, 'build', path).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*compiler, '-Ilib', '-I.', '-c', path, '-o', f'build/{path}.o'], cwd=folder, check=True)


def run(check, folder):
    if check == 'circles':
        compile_room(folder, 'daemon/')
        compile_room(folder, 'lib/engine/')
        for prefix in table.LADDERS:
            compile_room(folder, prefix)
    result = subprocess.run([sys.executable, f'{here}/{check}.py', folder, f'{folder}/build'], text=True,
                            capture_output=True, check=False)
    return result.returncode, result.stdout + result.stderr


def main():
    failed, skipped = 0, 0
    with tempfile.TemporaryDirectory() as base:
        clean = f'{base}/clean'
        make_tree(clean)
        for check in ('circles', 'clients', 'docs', 'javascript', 'layers', 'monitoring', 'mutants', 'protocol', 'sizes', 'text', 'headers', 'format',
                      'scripts', 'tree'):
            code, out = run(check, clean)
            if code not in (0, 77):
                failed += 1
                print(f'{check} fails on the clean tree:\n{out}')
        for i, (check, path, text, *words) in enumerate(CASES + FINE):
            folder = f'{base}/{i}'
            shutil.copytree(clean, folder)
            commands = pathlib.Path(folder, 'build/compile_commands.json')
            commands.write_text(commands.read_text(encoding='utf-8').replace(clean, folder), encoding='utf-8')
            put(folder, path, text, 'a')
            code, out = run(check, folder)
            if code == 77:
                skipped += 1
            elif words and (code == 0 or words[0] not in out or words[-1] not in out or (len(words) == 1 and path not in out)):
                failed += 1
                print(f'{check} lets pass in {path}: {text[:60]!r} (wanted "{words[0]}"), got:\n{out}')
            elif not words and code:
                failed += 1
                print(f'{check} refuses in {path}: {text[:60]!r}:\n{out}')
            shutil.rmtree(folder)
    print(f'{len(CASES)} violations, {failed} problems, {skipped} skipped')
    return 1 if failed else 0


sys.exit(main())
