#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""metrics.py: /metrics of the real gateway: the form of the text, what is counted, and who sees it. (monitoring.py has promtool look
at it.)"""
import os
import re
import signal
import sys

sys.dont_write_bytecode = True
import rig

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\[\\"n])*)"')
SAMPLE = re.compile(rf'({NAME})(?:\{{(.*)\}})? (\S+)')
TYPES = ('counter', 'gauge', 'histogram', 'untyped')


def family_of(name, types):
    for end in '_bucket', '_sum', '_count':
        if name.endswith(end) and types.get(name[:-len(end)]) == 'histogram':
            return name[:-len(end)]
    return name


def parse(text):
    """{(name, labels): value} of a text that keeps to the format."""
    return parse_all(text)[0]


def parse_all(text):
    """The same, and {family: type}."""
    rig.need(text.endswith('\n'), 'the last line ends')
    types, helps, samples, current = {}, set(), {}, None
    for line in text.splitlines():
        if line.startswith('# '):
            _, kind, name, rest = line.split(' ', 3)
            if kind == 'HELP':
                rig.need(name not in helps, f'{name} is told twice')
                helps.add(name)
            else:
                rig.need(kind == 'TYPE' and rest in TYPES and name not in types and name in helps, line)
                types[name] = rest
            current = name
            continue
        match = SAMPLE.fullmatch(line)
        rig.need(match, line)
        name, labels, value = match.groups()
        pairs = LABEL.findall(labels or '')
        rig.need(','.join(f'{key}="{label}"' for key, label in pairs) == (labels or ''), line)
        rig.need(len({key for key, _ in pairs}) == len(pairs), line)
        rig.need(family_of(name, types) == current, f'{line} is not beside its family')
        rig.need(types[current] != 'counter' or name.endswith('_total'), line)
        key = (name, tuple(sorted(pairs)))
        rig.need(key not in samples, f'{line} is there twice')
        samples[key] = float(value)
    check_histograms(types, samples)
    return samples, types


def check_histograms(types, samples):
    for family in (name for name, kind in types.items() if kind == 'histogram'):
        series = {}
        for (name, labels), value in samples.items():
            if name == family + '_bucket':
                labels = dict(labels)
                series.setdefault(tuple(sorted((k, v) for k, v in labels.items() if k != 'le')), []).append((float(labels['le']), value))
        rig.need(series, f'{family} has no buckets')
        for labels, buckets in series.items():
            rig.need(buckets == sorted(buckets) and buckets[-1][0] == float('inf'), buckets)
            rig.need([n for _, n in buckets] == sorted(n for _, n in buckets), buckets)
            rig.need(samples[(family + '_count', labels)] == buckets[-1][1], buckets)
            rig.need((family + '_sum', labels) in samples, family)


def scrape(r, **fields):
    status, head, text = r.get('/metrics', **fields)
    rig.need(status == 200 and head['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8', (status, text))
    return parse(text.decode())


def value(samples, name, **labels):
    found = [v for (n, l), v in samples.items() if n == name and set(labels.items()) <= set(l)]
    rig.need(len(found) == 1, (name, labels, found))
    return found[0]


def user_rows(samples, name):
    """{(uid, tenant or None): value}."""
    return {(dict(labels)['uid'], dict(labels).get('tenant')): n for (of, labels), n in samples.items() if of == name}


def chat(r, text, tokens=8, **head):
    body = {'model': 'm', 'messages': [{'role': 'user', 'content': text}], 'temperature': 0, 'max_tokens': tokens}
    status, _, answer = r.post('/v1/chat/completions', body, **head)
    rig.need(status == 200, answer)
    return answer['usage']


def check_table(r, text):
    """docs/http.md lists what there is, with its type and its labels, and nothing else."""
    samples, types = parse_all(text)
    labels = {name: set() for name in types}
    for name, pairs in samples:
        labels[family_of(name, types)] |= {key for key, _ in pairs} - {'le'}
    told = {name: (types[name], labels[name]) for name in types}
    figures = {f'confab_daemon_{name}' for name in r.figures()}
    rig.need(figures <= told.keys(), figures - told.keys())
    told = {name: row for name, row in told.items() if name not in figures}
    told['confab_daemon_NAME'] = ('untyped', {'daemon', 'model'})
    with open(f'{rig.source}/docs/http.md', encoding='utf-8') as file:
        rows = re.findall(r'^\| `(confab_\w+)` \| (\w+) \|([^|]*)\|[^|]*\|[^|]*\|$', file.read(), re.M)
    table = {name: (kind, set(re.findall(r'`(\w+)`', names))) for name, kind, names in rows}
    rig.need(len(rows) == len(table) and table == told, {name: (table.get(name), told.get(name)) for name in table.keys() | told.keys()
                                                        if table.get(name) != told.get(name)})


def test_format(r):
    r.start_daemon()
    r.start_gateway('--tenant-header', 'x-tenant')
    chat(r, 'My name is Nora.')
    chat(r, 'My name is Anna.', X_Tenant='anna')
    status, _, text = r.get('/metrics')
    rig.need(status == 200, text)
    parse(text.decode())
    check_table(r, text.decode())


def test_counts(r):
    before = scrape(r)
    usage = chat(r, 'What is my name?')
    again = chat(r, 'What is my name?')
    r.post('/v1/chat/completions', {'messages': 5})
    r.post('/api/chat', '[]')
    r.get('/confab/v1/conversations')
    r.get('/nothing')
    with r.raw() as s:
        s.sendall(b'what?\r\n\r\n')
        rig.need(s.recv(4096).startswith(b'HTTP/1.1 400 '), 'no request')
    after = scrape(r)

    def rise(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)
    rig.need(rise('confab_gateway_replies_total') == 2, 'replies')
    rig.need(rise('confab_gateway_prompt_tokens_total') == usage['prompt_tokens'] + again['prompt_tokens'], 'prompt')
    cached = sum(u['prompt_tokens_details']['cached_tokens'] for u in (usage, again))
    rig.need(rise('confab_gateway_cached_tokens_total') == cached > 0, 'cached')
    rig.need(rise('confab_gateway_generated_tokens_total') == usage['completion_tokens'] + again['completion_tokens'], 'generated')
    rig.need(rise('confab_gateway_first_token_seconds_count') == 2 and rise('confab_gateway_first_token_seconds_sum') > 0, 'first')
    rig.need(rise('confab_gateway_answers_total', dialect='openai', status='2xx') == 2, 'openai')
    rig.need(rise('confab_gateway_answers_total', dialect='openai', status='4xx') == 1, 'openai')
    rig.need(rise('confab_gateway_answers_total', dialect='ollama', status='4xx') == 1, 'ollama')
    rig.need(rise('confab_gateway_answers_total', dialect='confab', status='2xx') == 2, 'confab, and the figures before')
    rig.need(rise('confab_gateway_answers_total', dialect='basic', status='4xx') == 2, 'nothing, and no request')
    rig.need(rise('confab_gateway_requests_refused_total') == 1, 'refused')
    rig.need(value(after, 'confab_daemon_up', model='confab-small', daemon='0') == 1, 'up')
    stats = r.figures()
    for name in 'tokens_prefilled', 'tokens_decoded', 'budget', 'forks':
        rig.need(value(after, f'confab_daemon_{name}', model='confab-small') == stats[name], name)
    told = {name for name, _ in after if name.startswith('confab_daemon_')} - {'confab_daemon_up'}
    rig.need(told == {f'confab_daemon_{name}' for name in stats}, told)
    rig.need(rise('confab_first_token_seconds_count') == 2 and rise('confab_prefill_seconds_count') == 2, 'of the daemon')
    rig.need(rise('confab_token_seconds_count') == usage['completion_tokens'] + again['completion_tokens'] - 2, 'between tokens')
    rig.need(value(after, 'confab_uptime_seconds') > value(before, 'confab_uptime_seconds') > 0, 'up')
    rig.need(value(after, 'confab_build_info', version=r.stats()['version']) == 1, 'version')
    users, me = user_rows(after, 'confab_user_tokens_decoded_total'), str(os.getuid())
    rig.need(set(users) == {(me, None), (me, 'anna')} and users[me, 'anna'] > 0, users)
    rig.need(users[me, None] - user_rows(before, 'confab_user_tokens_decoded_total')[me, None] ==
             usage['completion_tokens'] + again['completion_tokens'], users)


def test_who_sees(r):
    """A tenant sees its own figures of the daemons, and none of the gateway, which are of all."""
    chat(r, 'Hello.')
    anna = chat(r, 'Hello.', X_Tenant='anna')
    mine, me = scrape(r, X_Tenant='anna'), str(os.getuid())
    rig.need(not [name for name, _ in mine if name.startswith('confab_gateway_')], mine)
    rig.need(value(mine, 'confab_daemon_tokens_decoded') > anna['completion_tokens'] and value(mine, 'confab_daemon_up') == 1, mine)
    rig.need('confab_daemon_forks' not in {name for name, _ in mine}, mine)
    # She was here twice, and sees nobody else.
    rig.need(value(mine, 'confab_first_token_seconds_count') == 2, mine)
    rig.need(value(mine, 'confab_token_seconds_count') == value(mine, 'confab_daemon_tokens_decoded') - 2, mine)
    users = user_rows(mine, 'confab_user_tokens_decoded_total')
    rig.need(users == {(me, 'anna'): value(mine, 'confab_daemon_tokens_decoded')}, users)
    mine = scrape(r, X_Tenant='berta')
    rig.need(value(mine, 'confab_daemon_tokens_decoded') == 0 and user_rows(mine, 'confab_user_conversations') == {(me, 'berta'): 0}, mine)
    rig.need(not any(n for (name, _), n in mine.items() if name.endswith('_seconds_count')), mine)
    r.stop_gateway()


def test_daemons(r):
    """One that is gone, and one that says nothing, are down; the others are told. Two may have the same model."""
    other, silent = r.folder + '/other', r.folder + '/silent'
    r.start_daemon(path=other)
    r.start_daemon(path=silent)
    r.start_gateway('--daemon', r.daemon_socket, '--daemon', other, '--daemon', silent, '--daemon', r.folder + '/none')
    r.get('/health')
    samples = scrape(r)
    rig.need([value(samples, 'confab_daemon_up', daemon=str(i)) for i in range(4)] == [1, 1, 1, 0], samples)
    rig.need(value(samples, 'confab_daemon_budget', daemon='1', model='confab-small') > 0, samples)
    r.daemons[silent].process.send_signal(signal.SIGSTOP)
    try:
        r.stop_daemon(path=other)
        samples = scrape(r)
    finally:
        r.daemons[silent].process.send_signal(signal.SIGCONT)
    rig.need([value(samples, 'confab_daemon_up', daemon=str(i)) for i in range(4)] == [1, 0, 0, 0], samples)
    rig.need(value(samples, 'confab_daemon_up', daemon='2', model='confab-small') == 0, 'its name is known')
    rig.need([dict(labels)['daemon'] for name, labels in samples if name == 'confab_daemon_budget'] == ['0'], samples)
    r.stop_gateway()


rig.run(globals(), daemon=None, gateway=None)
