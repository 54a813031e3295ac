#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""monitoring.py: what docs/monitoring gives to Prometheus and Grafana, with Debian's Prometheus and a real gateway: the example of its
settings, each alert, and each expression of the dashboard."""
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import dashboard
import prometheus
import rig

TOKEN = 'token-of-prometheus'
ALERT_TESTS = 'tests/gateway/alerts-test.yml'

# Panels that show nothing, or no number, in what happens here, and why.
EMPTY = {}
# Metrics that are not told here: the node exporter's.
FOREIGN = 'node_'
# A label that is there only where it is not empty.
OPTIONAL = {'tenant'}


def promtool(*args, **how):
    done = subprocess.run([prometheus.find('promtool'), *args], capture_output=True, check=False, **how)
    rig.need(done.returncode == 0, f'promtool {args}: {(done.stdout + done.stderr).decode()}')


def write_config(r):
    """The settings that docs/monitoring shows, with addresses and paths of this test, and seconds."""
    text = pathlib.Path(rig.source, 'docs/monitoring/prometheus.yml').read_text(encoding='utf-8')
    port = re.search(r'listening on 127\.0\.0\.1:(\d+)', r.gateway.said())[1]
    for was, now in (('scrape_interval: 15s', 'scrape_interval: 1s\n  evaluation_interval: 1s'),
                     ('/usr/share/doc/confab/monitoring/confab-alerts.yml', os.path.join(os.path.abspath(rig.source), dashboard.ALERTS)),
                     ('/etc/prometheus/confab.token', r.folder + '/prometheus.token'), ('127.0.0.1:8080', f'127.0.0.1:{port}')):
        rig.need(text.count(was) == 1, f'docs/monitoring/prometheus.yml: {was}')
        text = text.replace(was, now)
    path = r.folder + '/prometheus.yml'
    for name, content in (('prometheus.token', TOKEN), ('prometheus.yml', text)):
        pathlib.Path(r.folder, name).write_text(content, encoding='utf-8')
    return path


def talk(r):
    """Something of all that panels tell: a prompt that is computed, one that is in RAM, one that comes back from disk."""
    history = []
    for text in 'My name is Nora, and this is a letter to my sister. ' * 6, 'What is my name?', 'Who gets the letter?':
        if len(history) == 4:
            r.confab('evict', 'letter')
        history.append({'role': 'user', 'content': text})
        status, _, answer = r.post('/v1/chat/completions', {'messages': history, 'temperature': 0, 'max_tokens': 8}, X_Conversation_Id='letter')
        rig.need(status == 200, answer)
        history.append(answer['choices'][0]['message'])
    figures = r.stats()
    rig.need(figures['restores'] > 0 and figures['bytes_spill_written'] > 0, figures)


def is_number(value):
    return abs(value) < float('inf')


def check_alerts():
    """promtool takes the rules, and its tests of them pass, which name each alert as one that fires."""
    promtool('check', 'rules', os.path.join(rig.source, dashboard.ALERTS))
    promtool('test', 'rules', os.path.join(rig.source, ALERT_TESTS))
    names = dashboard.alert_names(rig.source)
    fires = re.findall(r'labels: .*\{.*alertname="(\w+)"', pathlib.Path(rig.source, ALERT_TESTS).read_text(encoding='utf-8'))
    rig.need(names and set(names) == set(fires), set(names) ^ set(fires))


def check_expressions(server, board):
    """Each gives numbers, with the labels that its legend names. Those of rates do after the second scrape."""
    left = dict.fromkeys(dashboard.expressions(board), 'was not asked')

    def look():
        for where, expr, legend in list(left):
            found = server.query(dashboard.fill_in(expr))
            labels = set(re.findall(r'\{\{(\w+)\}\}', legend)) - OPTIONAL
            if not any(is_number(value) for _, value in found):
                left[(where, expr, legend)] = f'gives {found}'
            elif not all(labels <= set(metric) for metric, _ in found):
                left[(where, expr, legend)] = f'gives {found} without {labels}'
            else:
                del left[(where, expr, legend)]
        return {where for where, *_ in left} <= set(EMPTY)

    try:
        prometheus.wait_for('all panels show something', look)
    except AssertionError as e:
        raise AssertionError(f'{e}: {left}') from None
    rig.need({where for where, *_ in left} == set(EMPTY), f'not empty: {set(EMPTY) - {where for where, *_ in left}}')


def check_variables(server, board):
    for variable in dashboard.variables(board):
        selector, label = dashboard.label_values(variable['query']['query'])
        found = server.ask(f'label/{label}/values', **{'match[]': dashboard.fill_in(selector)})
        rig.need(found, f'{variable["name"]}: {selector} has no {label}')


def check_rules(server):
    """None is active while all is well, though the figures are there that each looks at."""
    rules = [rule for group in server.ask('rules')['groups'] for rule in group['rules']]
    rig.need([rule['name'] for rule in rules] == dashboard.alert_names(rig.source), rules)
    for rule in rules:
        for selector in (s for s in dashboard.selectors(rule['query']) if not s.startswith(FOREIGN)):
            rig.need(server.query(selector), f'{rule["name"]}: there is no {selector}')
        prometheus.wait_for(f'{rule["name"]} is not true', lambda query=rule['query']: not server.query(query))
    prometheus.wait_for('rules are evaluated', lambda: all(rule['lastEvaluation'] > '0002' for group in server.ask('rules')['groups']
                                                           for rule in group['rules']))
    bad = [rule for group in server.ask('rules')['groups'] for rule in group['rules'] if rule['health'] != 'ok']
    rig.need(not bad, bad)


def check_names(r, board):
    """The dashboard asks for what the gateway tells; Prometheus alone would take a wrong name for a figure that is not there."""
    status, _, text = r.get('/metrics')
    rig.need(status == 200, text)
    told = set(re.findall(r'^([a-z_]+)(?=[{ ])', text.decode(), re.M))
    asked = set().union(*(dashboard.metrics(expr) for _, expr, _ in dashboard.expressions(board)))
    rig.need(len(asked) > 50 and asked <= told, asked - told)
    promtool('check', 'metrics', input=text)


def write_textfile(r):
    """Runs the command of the service: its status, and what is in the file."""
    unit = pathlib.Path(rig.source, 'docs/monitoring/confab-textfile.service').read_text(encoding='utf-8')
    command = re.search(r"^ExecStart=/bin/sh -c '(.*)'$", unit, re.M)[1]
    rig.need('/run/confab/confab.sock' in command, command)
    path = f'{os.path.dirname(os.path.abspath(rig.confab))}:{os.environ["PATH"]}'
    done = subprocess.run(['/bin/sh', '-c', command.replace('/run/confab/confab.sock', r.daemon_socket)], cwd=r.folder, check=False,
                          stderr=subprocess.DEVNULL, env={**os.environ, 'PATH': path})
    return done.returncode, pathlib.Path(r.folder, 'confab.prom').read_bytes()


def check_textfile(r):
    """It is what promtool takes, and tells of the daemon what the gateway does."""
    status, text = write_textfile(r)
    rig.need(status == 0, status)
    promtool('check', 'metrics', input=text)
    names, told = (set(re.findall(rb'^(confab_(?!gateway_)[a-z_]+)(?=[{ ])', t, re.M)) for t in (text, r.get('/metrics')[2]))
    rig.need(names == told and b'confab_daemon_budget' in names, names ^ told)
    return text


def is_missed(alerts):
    """Whether the one alert is that of the daemon, in words that name it."""
    if [alert['labels']['alertname'] for alert in alerts] != ['ConfabDaemonDown']:
        return False
    summary = alerts[0]['annotations']['summary']
    rig.need(re.fullmatch(r'confabd 0 \(confab-small\) at 127\.0\.0\.1:\d+ does not answer', summary), summary)
    return True


def test_prometheus(r):
    board = dashboard.load(rig.source)
    r.start_daemon()
    tokens = pathlib.Path(r.folder, 'tokens')
    tokens.touch(0o600)
    tokens.write_text(f'{TOKEN} {os.geteuid()}\n', encoding='utf-8')
    r.start_gateway('--tcp', '127.0.0.1:0', '--token-file', str(tokens))
    config = write_config(r)
    promtool('check', 'config', config)
    with prometheus.Server(r.folder, config) as server:
        check_alerts() # meanwhile: Prometheus takes five seconds before it looks at its first target
        prometheus.wait_for('the gateway is scraped', lambda: server.query('confab_daemon_budget'))
        talk(r)
        check_names(r, board)
        check_expressions(server, board)
        check_variables(server, board)
        text = check_textfile(r)
        for annotation in board['annotations']['list']:
            server.query(dashboard.fill_in(annotation['expr']))
        check_rules(server)
        r.stop_daemon()
        status, left = write_textfile(r)
        rig.need(status != 0 and left == text, 'figures of a daemon that is gone are replaced')
        prometheus.wait_for('the daemon is missed, and nothing else', lambda: is_missed(server.ask('alerts')['alerts']))
    r.stop_gateway()


if not all(prometheus.find(name) for name in prometheus.PROGRAMS):
    print('SKIP:', prometheus.MISSING)
    sys.exit(77)
rig.run(globals(), daemon=None, gateway=None)
