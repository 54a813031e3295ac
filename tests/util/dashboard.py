# SPDX-License-Identifier: MIT
"""What tests ask of docs/monitoring: the dashboard's expressions, the alerts, and the names of metrics in both."""
import json
import pathlib
import re

DASHBOARD = 'docs/monitoring/confab-dashboard.json'
ALERTS = 'docs/monitoring/confab-alerts.yml'

# What Grafana puts in the place of its own variables.
OWN_VARIABLES = {'__rate_interval': '1m', '__interval': '1m', '__range': '5m'}
METRIC = re.compile(r'(?<![\w:$"])([a-z_][a-z0-9_:]*)(?=\{|\[|\s*(?:[-+*/)><=]|$|unless|and\b|or\b|on\b))')
# Words of PromQL that stand where the name of a metric could.
WORDS = {'by', 'on', 'without', 'unless', 'and', 'or', 'bool', 'ignoring', 'group_left', 'group_right', 'offset', 'time'}


def load(root):
    return json.loads(pathlib.Path(root, DASHBOARD).read_text(encoding='utf-8'))


def panels(board):
    """All but titles of rows."""
    return [panel for panel in board['panels'] if panel['type'] != 'row']


def variables(board):
    return [v for v in board['templating']['list'] if v['type'] == 'query']


def fill_in(expr, chosen='.*'):
    """The expression as Grafana sends it, with all chosen."""
    return re.sub(r'\$(\w+)', lambda m: OWN_VARIABLES.get(m[1], chosen), expr)


def label_values(query):
    """(selector, label) of a variable's label_values(SELECTOR, LABEL)."""
    match = re.fullmatch(r'label_values\((.*), (\w+)\)', query)
    return match.groups() if match else (None, None)


def expressions(board):
    """(where, expression, legend) of all panels; annotations have none of the panels' promises."""
    return [(f'{panel["title"]}, {target["refId"]}', target['expr'], target['legendFormat'])
            for panel in panels(board) for target in panel['targets']]


def metrics(expr):
    """Names of the metrics in an expression."""
    bare = re.sub(r'"[^"]*"', '""', expr)
    bare = re.sub(r'\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)', '', bare)
    bare = re.sub(r'\{[^}]*\}', '{}', bare)
    return {name for name in METRIC.findall(bare) if name not in WORDS}


def selectors(expr):
    """What an expression looks at: names of metrics, with their matchers."""
    return {match[0] for match in re.finditer(r'([a-z_][a-z0-9_]*)(\{[^}]*\})?', re.sub(r'\b(by|on)\s*\([^)]*\)', '', expr))
            if match[1] in metrics(expr)}


def alert_names(root):
    return re.findall(r'^ +- alert: (\w+)$', pathlib.Path(root, ALERTS).read_text(encoding='utf-8'), re.M)
