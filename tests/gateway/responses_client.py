# SPDX-License-Identifier: MIT
"""What tests of /v1/responses and /v1/conversations share."""
import rig

RESPONSES, CONVERSATIONS = '/v1/responses', '/v1/conversations'


def user(text):
    return {'role': 'user', 'content': text}


def ask(r, items, **more):
    status, _, body = r.post(RESPONSES, {'model': 'm', 'input': items, 'temperature': 0, 'max_output_tokens': 8, **more})
    rig.need(status == 200, body)
    return body


def text(answer):
    """What SDKs call output_text."""
    return ''.join(part['text'] for item in answer['output'] if item['type'] == 'message' for part in item['content'])


def computed(answer):
    usage = answer['usage']
    return usage['input_tokens'] - usage['input_tokens_details']['cached_tokens']


def conversation_of(name):
    """The number of the conversation that an id names: a varint behind four bytes."""
    data = bytes.fromhex(name.split('_')[1])[4:]
    n = next(i for i, byte in enumerate(data) if byte < 128) + 1
    return str(sum((byte & 127) << 7 * i for i, byte in enumerate(data[:n])))


def check_item(events):
    """The events of one item, which are taken off the list; the item."""
    name, data = events.pop(0)
    rig.need(name == 'response.output_item.added' and data['item']['status'] == 'in_progress', (name, data))
    index, item = data['output_index'], data['item']
    kind = {'message': 'output_text', 'reasoning': 'reasoning', 'function_call': 'function_call_arguments'}[item['type']]
    said = ''
    while True:
        name, data = events.pop(0)
        rig.need(data['output_index'] == index, data)
        if name == 'response.output_item.done':
            break
        rig.need(data['item_id'] == item['id'], data)
        rig.need(kind == 'function_call_arguments' or 0 in (data.get('content_index'), data.get('summary_index')), data)
        if name.endswith('.delta'):
            rig.need(name.startswith(f'response.{kind}'), name)
            said += data['delta']
        elif name.endswith('part.added'):
            rig.need(data['part']['text'] == '', data)
        elif name.endswith('part.done'):
            rig.need(data['part']['text'] == said, data)
        else:
            rig.need(name.startswith(f'response.{kind}') and name.endswith('.done'), name)
            rig.need(data.get('text', data.get('arguments')) == said, data)
    done = data['item']
    rig.need(done['id'] == item['id'] and done['type'] == item['type'] and done['status'] != 'in_progress', done)
    texts = done.get('content', []) + done.get('summary', [])
    rig.need(done.get('arguments', ''.join(part['text'] for part in texts)) == said, done)
    return done


def check_events(events, end=('response.completed', 'response.incomplete')):
    """The order and the numbers of a whole stream; the response at its end."""
    events = list(events)
    rig.need([data['sequence_number'] for _, data in events] == list(range(len(events))), events)
    rig.need(all(name == data['type'] for name, data in events), events)
    for wanted in ('response.created', 'response.in_progress'):
        name, data = events.pop(0)
        rig.need(name == wanted and data['response']['output'] == [] and data['response']['status'] == 'in_progress', data)
    name, data = events.pop()
    answer = data['response']
    rig.need(name in end, (name, data))
    items = []
    while events:
        items.append(check_item(events))
        rig.need(events == [] or events[0][1]['output_index'] == len(items), events)
    rig.need(items == answer['output'], (items, answer))
    return answer
