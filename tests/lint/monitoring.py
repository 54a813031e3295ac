#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""monitoring.py ROOT: docs/monitoring is what Grafana and a reader can take.

- confab-dashboard.json is what tools/monitoring/dashboard.py prints.
- In each JSON there: ids of panels are given once; panels lie inside of the grid's 24 columns, and none on another; each has a title, a
  description, a known type and unit, and queries with a refId, an expression and the data source that is a variable; variables that are
  used are defined, and the other way round.
- Each alert has a severity, a summary, a description and a remedy, and a heading of its own in docs/monitoring.md, which has no others.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import table

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import dashboard

root = sys.argv[1]
report = table.Report()
GENERATOR = 'tools/monitoring/dashboard.py'
PAGE = 'docs/monitoring.md'
COLUMNS = 24
TYPES = {'row', 'stat', 'timeseries', 'heatmap', 'table'}
# Of those that Grafana knows (its "standard options", unit); suffix: is one's own.
UNITS = {'none', 'short', 'percent', 'percentunit', 'bytes', 'decbytes', 'Bps', 'binBps', 's', 'ms', 'dtdurations', 'reqps', 'ops', 'cps'}
SEVERITIES = {'critical', 'warning', 'info'}


def check_generated():
    path = pathlib.Path(root, dashboard.DASHBOARD)
    done = subprocess.run([sys.executable, os.path.join(root, GENERATOR)], capture_output=True, text=True, check=False)
    if done.returncode:
        report.bad(GENERATOR, 1, f'fails: {done.stderr}')
    elif not path.exists() or path.read_text(encoding='utf-8') != done.stdout:
        report.bad(dashboard.DASHBOARD, 1, f'is not what {GENERATOR} prints: {GENERATOR} >{dashboard.DASHBOARD}')


def units_of(panel):
    """All units that a panel names, wherever its type has them."""
    if isinstance(panel, dict):
        for key, value in panel.items():
            if key == 'unit' or (key == 'value' and panel.get('id') == 'unit'):
                yield value
            else:
                yield from units_of(value)
    elif isinstance(panel, list):
        for member in panel:
            yield from units_of(member)


def check_target(path, panel, target):
    if not re.fullmatch('[A-Z]', target.get('refId', '')) or not target.get('expr'):
        report.bad(path, 1, f'{panel["title"]}: a query without refId or expr')
    if target.get('datasource', {}).get('uid') != '${datasource}':
        report.bad(path, 1, f'{panel["title"]}: a query that names a data source')


def check_panel(path, panel):
    name = panel.get('title') or panel['id']
    if panel.get('type') not in TYPES or not panel.get('title'):
        report.bad(path, 1, f'{name}: no title, or no type that is known')
    if panel['type'] == 'row':
        return
    if not panel.get('description', '').endswith('.'):
        report.bad(path, 1, f'{name}: no description')
    for unit in units_of(panel):
        if unit not in UNITS and not unit.startswith('suffix:'):
            report.bad(path, 1, f'{name}: unit {unit} is not known')
    refs = [target.get('refId') for target in panel.get('targets', [])]
    if not refs or len(set(refs)) != len(refs):
        report.bad(path, 1, f'{name}: no queries, or two of one refId')
    for target in panel.get('targets', []):
        check_target(path, panel, target)


def check_grid(path, panels):
    taken = {}
    for panel in panels:
        x, y, w, h = (panel['gridPos'][key] for key in 'xywh')
        if x < 0 or w < 1 or h < 1 or x + w > COLUMNS:
            report.bad(path, 1, f'{panel["title"]}: not inside of {COLUMNS} columns')
        for cell in ((column, line) for column in range(x, x + w) for line in range(y, y + h)):
            if taken.setdefault(cell, panel['id']) != panel['id']:
                report.bad(path, 1, f'{panel["title"]}: lies on panel {taken[cell]}')
                break


def check_variables(path, board):
    defined = {variable['name'] for variable in board['templating']['list']}
    used = set(re.findall(r'\$\{?([a-z]\w*)', json.dumps(board)))
    for name in sorted(defined ^ used):
        report.bad(path, 1, f'variable {name} is {"not used" if name in defined else "not defined"}')
    for variable in dashboard.variables(board):
        if dashboard.label_values(variable['query']['query']) == (None, None):
            report.bad(path, 1, f'variable {variable["name"]}: {variable["query"]["query"]} is no label_values(SELECTOR, LABEL)')


def check_board(path):
    board = json.loads(table.read(root, path))
    ids = [panel['id'] for panel in board['panels']]
    if len(set(ids)) != len(ids):
        report.bad(path, 1, 'two panels have one id')
    if not 8 <= len(board.get('uid', '')) <= 40 or not board.get('title') or board.get('id') is not None:
        report.bad(path, 1, 'no uid of 8 to 40 characters, no title, or the id of one Grafana')
    for panel in board['panels']:
        check_panel(path, panel)
    check_grid(path, board['panels'])
    check_variables(path, board)


def check_alerts():
    text = table.read(root, dashboard.ALERTS)
    for rule in re.split(r'^ +- alert: ', text, flags=re.M)[1:]:
        name = rule.split('\n')[0]
        severity = re.search(r'severity: (\w+)', rule)
        if not severity or severity[1] not in SEVERITIES:
            report.bad(dashboard.ALERTS, 1, f'{name} has no severity')
        for key in 'summary', 'description', 'remedy':
            if not re.search(rf'^ +{key}: \S', rule, re.M):
                report.bad(dashboard.ALERTS, 1, f'{name} has no {key}')
    names, told = set(dashboard.alert_names(root)), set(re.findall(r'^### (Confab\w+)$', table.read(root, PAGE), re.M))
    for name in sorted(names ^ told):
        report.bad(PAGE, 1, f'{name} has no heading here' if name in names else f'there is no alert {name}')
    return len(names)


check_generated()
boards = sorted(pathlib.Path(root, 'docs/monitoring').glob('*.json'))
for found in boards:
    check_board(str(found.relative_to(root)))
report.finish(len(boards) if check_alerts() else 0)
