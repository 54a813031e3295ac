#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dashboard.py

Prints docs/monitoring/confab-dashboard.json: Grafana's JSON of the panels that panels.py lists.

    tools/monitoring/dashboard.py >docs/monitoring/confab-dashboard.json

What is promised (tests/lint/monitoring.py and tests/gateway/monitoring.py look):

1. The JSON in the tree is what this prints, so a change is made and read in panels.py.
2. It imports anywhere: the data source is a variable, and no panel names one. The uid is fixed, so that an import of a later
   version replaces the earlier one.
3. Panels stand in the order of the table, from left to right, and go to the next line where the 24 columns of Grafana's grid are full.
"""
import json
import sys

sys.dont_write_bytecode = True
import panels

COLUMNS = 24
SOURCE = {'type': 'prometheus', 'uid': '${datasource}'}
# The classic model in the version of Grafana 10.4 and 11; later ones take it, and migrate it by themselves.
SCHEMA_VERSION = 39


def targets_of(panel):
    """Queries A, B, ...: over the time that is shown, or of its end alone where a panel shows single values."""
    instant = panel['type'] in ('stat', 'table')
    form = {'table': 'table', 'heatmap': 'heatmap'}.get(panel['type'], 'time_series')
    return [{'refId': chr(ord('A') + i), 'datasource': SOURCE, 'expr': expr, 'legendFormat': legend, 'editorMode': 'code', 'format': form,
             'instant': instant, 'range': not instant} for i, (expr, legend) in enumerate(panel['queries'])]


def mappings_of(values):
    return [{'type': 'value', 'options': {str(value): {'text': text, 'color': color, 'index': i}
                                          for i, (value, text, color) in enumerate(values)}}] if values else []


def thresholds_of(steps):
    colors = [{'color': 'green', 'value': None}] + [{'color': color, 'value': value} for value, color in steps]
    return {'mode': 'absolute', 'steps': colors}


def stat(panel):
    return {'fieldConfig': {'defaults': {'unit': panel['unit'], 'mappings': mappings_of(panel.get('values')), 'color': {'mode': 'thresholds'},
                                         'thresholds': thresholds_of(panel.get('steps', []))}, 'overrides': []},
            'options': {'reduceOptions': {'calcs': ['lastNotNull'], 'fields': '', 'values': False}, 'textMode': panel.get('text', 'auto'),
                        'colorMode': 'value', 'graphMode': 'none', 'justifyMode': 'auto', 'orientation': 'auto'}}


def timeseries(panel):
    stacked = panel.get('stacked', False)
    custom = {'drawStyle': 'bars' if panel.get('bars') else 'line', 'lineWidth': 1, 'fillOpacity': 30 if stacked else 10, 'showPoints': 'never',
              'spanNulls': False, 'stacking': {'mode': 'normal' if stacked else 'none', 'group': 'A'}}
    if panel.get('logarithmic'):
        custom['scaleDistribution'] = {'type': 'log', 'log': 10}
    return {'fieldConfig': {'defaults': {'unit': panel['unit'], 'color': {'mode': 'palette-classic'}, 'custom': custom,
                                         **({} if panel.get('logarithmic') else {'min': 0})}, 'overrides': []},
            'options': {'legend': {'displayMode': 'list', 'placement': 'bottom', 'showLegend': True, 'calcs': []},
                        'tooltip': {'mode': 'multi', 'sort': 'desc'}}}


def heatmap(panel):
    """Buckets come as Prometheus has them; a cell says how many a second fell into it."""
    return {'fieldConfig': {'defaults': {}, 'overrides': []},
            'options': {'calculate': False, 'cellGap': 1, 'color': {'mode': 'scheme', 'scheme': 'Oranges', 'exponent': 0.5, 'steps': 64},
                        'filterValues': {'le': 1e-9}, 'legend': {'show': True}, 'rowsFrame': {'layout': 'auto'},
                        'tooltip': {'mode': 'single', 'yHistogram': False}, 'yAxis': {'axisPlacement': 'left', 'unit': panel['unit']}}}


def table(panel):
    """One line for each set of labels: the queries are merged, and their columns named by their legends."""
    names = {f'Value #{chr(ord("A") + i)}': legend for i, (_, legend) in enumerate(panel['queries'])}
    units = [{'matcher': {'id': 'byName', 'options': legend}, 'properties': [{'id': 'unit', 'value': unit}]}
             for (_, legend), unit in zip(panel['queries'], panel['units'])]
    return {'fieldConfig': {'defaults': {'custom': {'align': 'auto', 'filterable': True}}, 'overrides': units},
            'options': {'showHeader': True, 'cellHeight': 'sm', 'sortBy': [{'displayName': panel['queries'][0][1], 'desc': True}]},
            'transformations': [{'id': 'merge', 'options': {}},
                                {'id': 'organize', 'options': {'excludeByName': {'Time': True}, 'indexByName': {}, 'renameByName': names}}]}


KINDS = {'stat': stat, 'timeseries': timeseries, 'heatmap': heatmap, 'table': table}


def place(rows):
    """The panels of all rows, each row below its title."""
    placed, y, number = [], 0, 1
    for title, members in rows:
        placed.append({'id': number, 'type': 'row', 'title': title, 'collapsed': False, 'gridPos': {'x': 0, 'y': y, 'w': COLUMNS, 'h': 1}, 'panels': []})
        x, y, height, number = 0, y + 1, 0, number + 1
        for panel in members:
            if x + panel['width'] > COLUMNS:
                x, y, height = 0, y + height, 0
            placed.append({'id': number, 'type': panel['type'], 'title': panel['title'], 'description': panel['description'], 'datasource': SOURCE,
                           'gridPos': {'x': x, 'y': y, 'w': panel['width'], 'h': panel['height']}, 'targets': targets_of(panel),
                           **KINDS[panel['type']](panel)})
            x, height, number = x + panel['width'], max(height, panel['height']), number + 1
        y += height
    return placed


def variable(name, label, query, all_value):
    """A choice of several values of a label. Without @all_value, All stands for those that are listed, and for no other."""
    return {'type': 'query', 'name': name, 'label': label, 'datasource': SOURCE, 'definition': query,
            'query': {'query': query, 'refId': f'variable-{name}', 'qryType': 1}, 'refresh': 2, 'sort': 3, 'multi': True, 'includeAll': True,
            **({'allValue': all_value} if all_value else {}), 'current': {'selected': True, 'text': ['All'], 'value': ['$__all']},
            'options': [], 'regex': '', 'hide': 0, 'skipUrlSync': False}


def annotation(name, expr, color, title):
    return {'name': name, 'datasource': SOURCE, 'enable': True, 'hide': False, 'iconColor': color, 'expr': expr, 'step': '60s', 'titleFormat': title,
            'useValueForTime': False}


def dashboard():
    source = {'type': 'datasource', 'name': 'datasource', 'label': 'Data source', 'query': 'prometheus', 'refresh': 1, 'regex': '', 'multi': False,
              'includeAll': False, 'current': {}, 'options': [], 'hide': 0, 'skipUrlSync': False}
    return {'id': None, 'uid': 'confab-monitoring', 'title': 'confab', 'description': panels.DESCRIPTION, 'tags': ['confab'], 'schemaVersion': SCHEMA_VERSION,
            'version': 1, 'editable': True, 'graphTooltip': 1, 'timezone': 'browser', 'time': {'from': 'now-3h', 'to': 'now'}, 'refresh': '30s',
            'fiscalYearStartMonth': 0, 'liveNow': False, 'weekStart': '', 'links': [],
            'annotations': {'list': [annotation(name, panels.expand(expr), color, title) for name, expr, color, title in panels.ANNOTATIONS]},
            'templating': {'list': [source] + [variable(*row) for row in panels.VARIABLES]},
            'panels': place(panels.ROWS)}


if __name__ == '__main__':
    json.dump(dashboard(), sys.stdout, indent=2, ensure_ascii=False)
    print()
