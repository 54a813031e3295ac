#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""acp.py CONFABD CONFAB SOURCE: `confab acp` on pipes with the real daemon, as editors use it."""
import json
import os
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import model_file
from acp_rig import DEADLINE, Agent, Daemon, need

confabd, confab, source = sys.argv[1:4]
MODEL = os.path.join(source, 'models/confab-small.q8_0.gguf')
if not os.path.exists(MODEL):
    print(f'SKIP: no {MODEL}')
    sys.exit(77)

# A reply that the model never ends has so many tokens: it goes on for so long that what a test does in the middle of
# it does not depend on how fast the machine is. The memory has room for two of them.
CONTEXT, LONG = 65536, 30000
WEATHER = [{'name': 'weather', 'description': 'The weather now.', 'parameters': {'type': 'object'}}]
CALL = '<think>\nI need it.\n</think>\n\nSo:<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
SHORT = ('--temperature', '0', '--max-tokens', '8')
FOLDER = '/home/user/project'


def long_replies(daemon):
    """Options with which replies do not end."""
    ends = daemon.run('tokenize', '--special', '--ids', '<|im_end|>').strip()
    need(ends.isdigit(), f'the end of a turn is one token: {ends}')
    return '--max-tokens', str(LONG), '--logit-bias', f'{ends}=-inf'


def check_initialize(daemon):
    agent = Agent(daemon)
    result = agent.call('initialize', protocolVersion=1, clientCapabilities={}, clientInfo={'name': 'x', 'version': '0'})
    need(result['protocolVersion'] == 1 and result['authMethods'] == [], f'initialize: {result}')
    can = result['agentCapabilities']
    need(can['loadSession'] is True and can['promptCapabilities'] == {'image': False, 'audio': False,
         'embeddedContext': True}, f'capabilities: {can}')
    need(set(can['sessionCapabilities']) == {'list', 'fork', 'resume', 'close', 'delete'}, f'capabilities: {can}')
    need(agent.call('initialize', protocolVersion=7)['protocolVersion'] == 1, 'a newer client hears version 1')
    need('protocolVersion' in agent.refused('initialize')['message'], 'the missing field is named')
    need('methodId' in agent.refused('authenticate', methodId='x')['message'], 'there is no method to authenticate')
    agent.end()


def check_talk(daemon):
    """A session from its first prompt to its end, over a restart of the agent and of the daemon."""
    agent = Agent(daemon, *SHORT, '--system', 'You are kind.')
    session = agent.open()
    c = daemon.look(session)
    need(c['about']['expires_after'] > 0, f'an unused session does not stay: {c}')
    need(c['overflow'] == 'shift', f'a session does not end with the context: {c}')
    need(json.loads(c['about']['metadata']) == {'cwd': FOLDER}, f'the folder is noted: {c}')
    need(agent.list(cwd=FOLDER)[0] == [], 'an unused session is not listed')
    need(agent.load(session) == [], 'a system message is not told')
    why, first = agent.prompt(session, '  My name\nis Nora.')
    need(why in ('end_turn', 'max_tokens') and first, f'a reply: {why} {first!r}')
    need((session, {'sessionUpdate': 'session_info_update', 'title': 'My name'}) in agent.updates, 'the title is told')
    usage = [u for s, u in agent.updates if u['sessionUpdate'] == 'usage_update']
    need(usage and all(u['size'] == CONTEXT and u['used'] > 0 for u in usage[1:]), f'the usage is told: {usage}')
    c = daemon.look(session)
    need(c['about'].get('expires_after', 0) == 0 and c['about']['title'] == 'My name', f'it stays: {c}')
    _, second = agent.prompt(session, 'What is my name?')
    history = [('user', '  My name\nis Nora.'), ('agent', first), ('user', 'What is my name?'), ('agent', second)]
    need(agent.load(session) == history, 'the history is told')
    need(daemon.look(session)['about']['title'] == 'My name', 'the title stays')
    agent.end()
    agent = Agent(daemon, *SHORT)
    need(agent.load(session) == history, 'the history is told to another agent')
    daemon.stop()
    daemon.start()
    need(agent.load(session) == history, 'the history is told after a restart of the daemon')
    need(agent.call('session/resume', sessionId=session, cwd=FOLDER, mcpServers=[]) == {}, 'resume')
    listed, _ = agent.list(cwd=FOLDER)
    need([(s['sessionId'], s['cwd'], s['title']) for s in listed] == [(session, FOLDER, 'My name')],
         f'the session is listed: {listed}')
    need(listed[0]['updatedAt'].endswith('Z') and listed[0]['updatedAt'].startswith('20'), f'with its time: {listed}')
    agent.end()
    return session, history


def check_fork(daemon, session, history):
    agent = Agent(daemon, *SHORT)
    other = agent.call('session/fork', sessionId=session, cwd='/other', mcpServers=[])['sessionId']
    need(other != session and agent.load(other) == history, 'a fork has the history')
    agent.prompt(other, 'And now?')
    need(agent.load(session) == history, 'a fork leaves the first one alone')
    need([s['sessionId'] for s in agent.list(cwd='/other')[0]] == [other], 'a fork belongs to its folder')
    fresh = agent.open('/third')
    empty = agent.call('session/fork', sessionId=fresh, cwd='/third', mcpServers=[])['sessionId']
    need(daemon.look(empty)['about']['expires_after'] > 0, 'the fork of an unused session does not stay')
    need(agent.call('session/delete', sessionId=other) == {}, 'delete')
    need(daemon.look(other) is None and daemon.look(session), 'only the fork is deleted')
    need(agent.call('session/delete', sessionId=other) == {}, 'what is gone may be deleted')
    need(agent.refused('session/load', sessionId=other, cwd=FOLDER, mcpServers=[])['code'] == -32002, 'it is not found')
    agent.end()


def check_others(daemon):
    """Conversations that no editor made."""
    daemon.run('open', 'trip')
    daemon.run('say', 'trip', '--max-tokens', '2', 'By the command.')
    agent = Agent(daemon, *SHORT)
    need(agent.load('trip')[0] == ('user', 'By the command.'), 'it is loaded by name')
    number = str(daemon.look('trip')['id'])
    need(agent.load('#' + number) == agent.load(number) == agent.load('trip'), 'and by number')
    need('trip' not in [s['title'] for s in agent.list(cwd=FOLDER)[0]], 'it belongs to no folder')
    found = [s for s in agent.list()[0] if s['title'] == 'trip']
    need([(s['sessionId'], s['cwd']) for s in found] == [(number, '/')], f'without a folder it is listed: {found}')
    fork = agent.call('session/fork', sessionId='trip', cwd='/trip', mcpServers=[])['sessionId']
    need([s['sessionId'] for s in agent.list(cwd='/trip')[0]] == [fork], 'its fork is an editor\'s')
    for name in ('nosuch', '99999999', '#0', '99999999999999999999999'):
        for method in ('session/load', 'session/resume', 'session/fork'):
            e = agent.refused(method, sessionId=name, cwd=FOLDER, mcpServers=[])
            need(e['code'] == -32002 and e['data'] == {'code': 'not_found', 'retry': False}, f'{method} {name}: {e}')
        e = agent.refused('session/prompt', sessionId=name, prompt=[{'type': 'text', 'text': 'x'}])
        need(e['code'] == -32002, f'prompt {name}: {e}')
        need(agent.call('session/close', sessionId=name) == {}, 'what is not open may be closed')
    agent.end()


def check_pages(daemon):
    daemon.stop()
    daemon.start('--list-page', '2')
    agent = Agent(daemon, '--max-tokens', '1')
    made = []
    for i in range(5):
        agent.open('/paged') # not prompted: left out
        made.append(agent.open('/paged' if i % 2 == 0 else '/else'))
        agent.prompt(made[-1], f'number {i}')
    found, pages = agent.list(cwd='/paged')
    need([s['sessionId'] for s in found] == made[::-2], f'latest first: {found}')
    need(pages > 1, 'there are several pages')
    need([s['sessionId'] for s in agent.list()[0]][:5] == made[::-1], 'of all folders')
    need(agent.list(cwd='/nowhere') == ([], 1), 'no page is asked for in vain')
    e = agent.refused('session/list', cursor='no cursor')
    need(e['code'] == -32602, f'a bad cursor: {e}')
    agent.end()


def check_long_history(daemon):
    """More turns than a page of a replay has, told in order."""
    agent = Agent(daemon, '--max-tokens', '1')
    session = agent.open()
    asked = [f'question {i}' for i in range(21)]
    for text in asked:
        agent.prompt(session, text)
    need([text for who, text in agent.load(session) if who == 'user'] == asked, 'all turns are told, in order')
    agent.end()


def check_cancel(daemon):
    endless = long_replies(daemon)
    agent = Agent(daemon, *endless)
    a, b = agent.open(), agent.open()
    first, second = agent.begin_prompt(a, 'one'), agent.begin_prompt(b, 'two')
    agent.wait_for_words(a)
    agent.wait_for_words(b)
    agent.wait_for_words(a, len(agent.said(a)))
    agent.wait_for_words(b, len(agent.said(b)))
    need(not any(agent.answers.values()), 'two sessions speak at the same time')
    third = agent.begin_prompt(a, 'three') # waits for the first
    agent.notify('session/cancel', sessionId=a)
    for number in (first, third):
        need(agent.answer(number)['result']['stopReason'] == 'cancelled', 'a prompt is cancelled')
    agent.wait_for_words(b, len(agent.said(b)))
    said = agent.said(a)
    history = agent.load(a)
    need(history == [('user', 'one'), ('agent', said)], f'what was said until then is kept: {history} {said!r}')
    agent.begin('session/close', sessionId=b)
    need(agent.answer(second)['result']['stopReason'] == 'cancelled', 'to close a session cancels its prompt')
    need(agent.answer(agent.next_id)['result'] == {}, 'and is answered after it')
    again = agent.begin_prompt(b, 'four')
    agent.wait_for_words(b, len(agent.said(b)))
    agent.begin('session/delete', sessionId=b)
    need(agent.answer(again)['result']['stopReason'] == 'cancelled', 'to delete a session cancels its prompt')
    need(agent.answer(agent.next_id)['result'] == {} and daemon.look(b) is None, 'and deletes it')
    agent.notify('session/cancel', sessionId=a) # nothing runs
    agent.end()


def check_lost_daemon(daemon):
    agent = Agent(daemon, *long_replies(daemon))
    session = agent.open()
    number = agent.begin_prompt(session, 'one')
    agent.wait_for_words(session)
    daemon.stop()
    answer = agent.answer(number)
    # a daemon that stops cancels what runs, or says so
    need(answer.get('result', {}).get('stopReason') == 'cancelled' or
         answer['error']['data']['code'] in ('shutdown', 'disconnected'), f'the prompt ends: {answer}')
    e = agent.refused('session/new', cwd=FOLDER, mcpServers=[])
    need(e['code'] == -32603 and e['data']['code'] == 'no_daemon', f'without a daemon: {e}')
    need(agent.call('initialize', protocolVersion=1), 'to initialize takes no daemon')
    daemon.start()
    need(agent.load(session)[0] == ('user', 'one'), 'the next request finds the new daemon')
    number = agent.begin_prompt(session, 'two')
    agent.wait_for_words(session, len(agent.said(session)))
    daemon.process.kill()
    daemon.process.wait(DEADLINE)
    e = agent.answer(number)['error']
    need(e['code'] == -32603 and e['data']['code'] == 'disconnected', f'a daemon that died: {e}')
    daemon.start()
    need(agent.load(session)[-1][1] != '', 'and again')
    agent.end()


def check_hostile(daemon):
    agent = Agent(daemon)
    ok = b'{"jsonrpc":"2.0","id":"after","method":"initialize","params":{"protocolVersion":1}}\n'
    cases = [ # line, id, code, what the message has
        (b'{"jsonrpc":\n', None, -32700, 'JSON'),
        (b'\xff\xfe\n', None, -32700, 'JSON'),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"} x\n', None, -32700, 'JSON'),
        (b'[' * 100000 + b'\n', None, -32700, 'JSON'),
        (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]\n', None, -32600, 'batch'),
        (b'7\n', None, -32600, 'object'),
        (b'{"id":4,"method":"initialize"}\n', 4, -32600, 'jsonrpc'),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}\n', None, -32600, 'id'),
        (b'{"jsonrpc":"2.0","id":5}\n', 5, -32600, 'method'),
        (b'{"jsonrpc":"2.0","id":5,"method":7}\n', 5, -32600, 'method'),
        (b'{"jsonrpc":"2.0","id":-7,"method":"nosuch"}\n', -7, -32601, 'nosuch'),
        (b'{"jsonrpc":"2.0","id":"x y","method":"session/set_mode","params":{}}\n', 'x y', -32601, 'set_mode'),
        (b'{"jsonrpc":"2.0","id":null,"method":"nosuch"}\n', None, -32601, 'nosuch'),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"nosuch"}\n', 1.5, -32601, 'nosuch'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":[]}\n', 8, -32602, 'params'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/new"}\n', 8, -32602, 'cwd is missing'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":{"cwd":"project"}}\n', 8, -32602, 'cwd'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":{"cwd":"/a\\u0000b"}}\n', 8, -32602, 'cwd'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":{"cwd":"/","mcpServers":{}}}\n', 8, -32602,
         'mcpServers'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"","prompt":[]}}\n', 8, -32602,
         'sessionId'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"1","prompt":[]}}\n', 8, -32602,
         'prompt'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"1","prompt":[{"type":"image"}]}}\n', 8,
         -32602, 'image'),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"1","prompt":[{"type":"text"}]}}\n', 8,
         -32602, 'prompt[0]: text'),
        (b'x' * (9 << 20) + b'\n', None, -32600, 'longer'),
    ]
    for line, number, code, words in cases:
        agent.send(line)
        e = agent.answer(number)['error']
        need(e['code'] == code and words in e['message'], f'{line[:80]}: {e}')
    for line in (b'\n', b' \r\n', b'{"jsonrpc":"2.0","method":"$/nosuch"}\n', b'{"jsonrpc":"2.0","method":"session/prompt"}\n',
                 b'{"jsonrpc":"2.0","id":0,"result":{}}\n', b'{"jsonrpc":"2.0","method":"session/cancel"}\n'):
        agent.send(line)
    agent.send(ok.replace(b'\n', b'\r\n'))
    need('result' in agent.answer('after'), 'it goes on after all that')
    agent.send(ok.rstrip(b'\n')) # the last line needs no newline
    agent.process.stdin.close()
    need('result' in agent.answer('after'), 'the last line counts')
    agent.end()
    need(any('nosuch' in line for line in agent.errors), f'unknown notifications are told: {agent.errors}')


def check_slow_reader(daemon):
    """An editor that writes much before it reads anything. What waits in the pipes is bounded, so a thread writes."""
    process = subprocess.Popen([confab, '--socket', daemon.socket, 'acp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    n = 20000 # answers of 7 MB
    line = '{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":1}}\n'

    def write():
        process.stdin.write(''.join(line % i for i in range(n)).encode())
        process.stdin.close()
    writer = threading.Thread(target=write)
    writer.start()
    writer.join(1)
    need([json.loads(text)['id'] for text in process.stdout] == list(range(n)), 'all are answered, in order')
    writer.join()
    need(process.wait(DEADLINE) == 0, 'and it ends')


def check_endings(daemon):
    agent = Agent(daemon, *SHORT)
    session = agent.open()
    number = agent.begin_prompt(session, 'one')
    agent.process.stdin.close()
    need('result' in agent.answer(number), 'what was asked before the end of the input is answered')
    agent.end()
    agent = Agent(daemon, *long_replies(daemon))
    session = agent.open()
    agent.begin_prompt(session, 'one')
    agent.wait_for_words(session)
    agent.process.send_signal(9)
    agent.process.wait(DEADLINE)
    agent = Agent(daemon, *SHORT)
    need(agent.prompt(session, 'two')[0] in ('end_turn', 'max_tokens'), 'what the lost editor had asked for was cancelled')
    agent.end()
    read, write = os.pipe()
    with subprocess.Popen([confab, '--socket', daemon.socket, 'acp'], stdin=subprocess.PIPE, stdout=write) as process:
        os.close(write)
        os.close(read)
        need(process.wait(DEADLINE) == 141, 'it ends when nobody reads')
    need('json' not in daemon.run('acp', '--overflow', 'x', status=2), 'wrong usage')


def check_calls(daemon, folder):
    """A conversation with reasoning, a call and its result is told as such."""
    for name, text in (('tools', json.dumps(WEATHER)), ('call', 'root ::= ' + json.dumps(CALL)),
                       ('answer', 'root ::= "Yes."')):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
            f.write(text)
    files = {name: os.path.join(folder, name) for name in ('tools', 'call', 'answer')}
    daemon.run('open', 'calls', '--tools', files['tools'])
    events = daemon.run('say', 'calls', '--json', '--grammar', files['call'], 'Do I need a coat?', status=7)
    call_id = next(p['call_id'] for line in events.splitlines() for p in json.loads(line).get('parts', [])
                   if 'call_id' in p)
    daemon.run('say', 'calls', '--result', call_id + '=-4 degrees', '--grammar', files['answer'])
    agent = Agent(daemon)
    agent.load('calls')
    told = [u for _, u in agent.updates if u['sessionUpdate'] != 'usage_update']

    def chunk(kind, text):
        return {'sessionUpdate': kind, 'content': {'type': 'text', 'text': text}}
    result = [{'type': 'content', 'content': {'type': 'text', 'text': '-4 degrees'}}]
    expected = [chunk('user_message_chunk', 'Do I need a coat?'), chunk('agent_thought_chunk', 'I need it.'),
                chunk('agent_message_chunk', 'So:'),
                {'sessionUpdate': 'tool_call', 'toolCallId': call_id, 'title': 'weather', 'kind': 'other',
                 'status': 'pending', 'rawInput': {'city': 'Oslo'}},
                {'sessionUpdate': 'tool_call_update', 'toolCallId': call_id, 'status': 'completed', 'content': result,
                 'rawOutput': '-4 degrees'},
                chunk('agent_message_chunk', 'Yes.')]
    need(told == expected, f'the history:\n{told}\nis not\n{expected}')
    agent.end()


with tempfile.TemporaryDirectory(prefix='confab-acp-') as temporary:
    path = os.path.join(temporary, 'model.gguf')
    with open(MODEL, 'rb') as file:
        model = model_file.with_context(model_file.with_template(file.read(), model_file.TOOLS_TEMPLATE), CONTEXT)
    with open(path, 'wb') as file:
        file.write(model)
    the_daemon = Daemon(confabd, confab, temporary, path)
    the_daemon.start()
    try:
        check_initialize(the_daemon)
        talked = check_talk(the_daemon)
        check_fork(the_daemon, *talked)
        check_others(the_daemon)
        check_pages(the_daemon)
        check_long_history(the_daemon)
        check_cancel(the_daemon)
        check_hostile(the_daemon)
        check_slow_reader(the_daemon)
        check_endings(the_daemon)
        check_calls(the_daemon, temporary)
        check_lost_daemon(the_daemon)
        the_daemon.stop()
    finally:
        if the_daemon.process and the_daemon.process.poll() is None:
            the_daemon.process.kill()
            the_daemon.process.wait()
print('sessions were opened, prompted, cancelled, loaded, forked, listed and deleted')
