#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python-verbs.py PACKAGE-FOLDER CONFABD SOURCE: every verb, by both Python clients, against the real daemon."""
import inspect
import io
import json
import os

from rig import Daemon, both, confab, fails, main, messages, need
from confab import blocking, verbs, word

GREEDY = {'temperature': 0}


def declared():
    """Each verb of the protocol is a method of both clients, and each field of its message an argument."""
    for field in messages.Request.DESCRIPTOR.oneofs_by_name['verb'].fields:
        if field.name in ('hello', 'chunk'):
            continue
        # stats() is a short form, of the named figures alone.
        name = {'continue': 'continue_', 'import': 'import_', 'stats': 'figures'}.get(field.name, field.name)
        for client in (confab.Client, blocking.Client):
            need(callable(getattr(client, name, None)), f'{client} has no {name}()')
            need(getattr(client, name).__doc__, f'{name}() is not documented')
        made = inspect.signature(getattr(verbs, name)).parameters
        for part in field.message_type.fields:
            if part.name not in ('nothing', 'in_stream'):
                need(part.name in made, f'{name}() has no argument {part.name}')


def words():
    need(word(messages.FinishReason, messages.FINISH_STOP_STRING) == 'stop_string', 'a word')
    need(word(messages.Role, 99) == 'unknown', 'a number of a newer daemon')
    for call in (lambda: verbs.open('x', overflow='often'), lambda: verbs.continue_('x', 'y', raw=b'z'),
                 lambda: verbs.continue_('x', 'y', at_turn=1, at_position=1),
                 lambda: verbs.fork('x', at_turn=1, at_position=2)):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError('this is taken')


# ---- scenarios: (connect, from_socket) of one of the clients ----

async def conversations(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            need(client.server.startswith('confab '), client.server)
            need(client.owner == (os.getuid(), None), f'{client.owner}')
            trip = await client.open(
                'trip', system='Be brief.', overflow='shift', sampling={**GREEDY, 'logit_bias': {5: -1.5}},
                about={'title': 'A trip', 'tags': ['sea', 'sky'], 'metadata': {'by': 'Ñ'}, 'session': 's1'})
            need(trip.name == 'trip' and word(messages.Overflow, trip.overflow) == 'shift', f'{trip}')
            need(json.loads(trip.about.metadata) == {'by': 'Ñ'} and list(trip.about.tags.tags) == ['sea', 'sky'],
                 f'{trip.about}')
            need([(b.token, b.bias) for b in trip.sampling.logit_bias] == [(5, -1.5)], f'{trip.sampling}')
            with fails('exists') as errors:
                await client.open('trip')
            need('trip' in errors[0].message and not errors[0].retry, f'{errors[0]!r}')
            plain = await client.open()
            for ref in (plain.id, plain.name, plain, messages.Ref(id=plain.id)):
                need((await client.get(ref)).id == plain.id, f'{ref}')
            await client.continue_(trip, 'Hello!', max_tokens=0).text()
            child = await client.fork('trip', 'child', about={'title': 'Forked'})
            need(child.parent == trip.id and child.about.title == 'Forked', f'{child}')
            need(list(child.about.tags.tags) == ['sea', 'sky'], 'tags are inherited')
            short = await client.fork(trip, at_turn=1, expect_revision=(await client.get(trip)).revision)
            need(short.n_turns == 1, f'{short}')
            with fails('conflict'):
                await client.fork(trip, expect_revision=77)
            changed = await client.update('child', name='kid', sampling={'top_k': 3}, overflow='error',
                                          about={'tags': []})
            need(changed.name == 'kid' and changed.sampling.top_k == 3, f'{changed}')
            need((await client.update('kid', sampling={'seed': 7})).sampling.top_k == 3, 'merged')
            changed = await client.update('kid', sampling={'seed': 8}, reset_sampling=True)
            need(changed.sampling.seed == 8 and not changed.sampling.HasField('top_k'), f'{changed}')
            need(not changed.about.tags.tags and changed.about.title == 'Forked', f'{changed}')
            need(not changed.pinned and (await client.update('kid', pinned=True)).pinned, 'pinned')
            need((await client.get('kid')).pinned and (await client.update('kid', overflow='shift')).pinned, 'still')
            need(not (await client.update('kid', pinned=False)).pinned, 'no longer')
            need((await client.rewind('kid', turns=1)).n_turns == 1, 'rewound')
            need(not (await client.carry('kid')).carried, 'nothing to carry')
            await lists(client)
            await client.cancel('kid')
            with fails('not_found'):
                await client.cancel(request=12345)
            need(await client.close('kid') is None, 'closed')
            with fails('not_found'):
                await client.get('kid')


async def lists(client):
    first = await client.list(limit=1)
    need(first.more and len(first.conversations) == 1, f'{first}')
    names = [first.conversations[0].name]
    while first.more:
        first = await client.list(limit=1, cursor=first.cursor)
        names += [c.name for c in first.conversations]
    need(names[0] == 'trip' and len(names) == 4, f'{names}')
    need([c.name for c in (await client.list(tag='sky')).conversations][:1] == ['trip'], 'by tag')
    latest = await client.list(order='updated')
    need(latest.conversations[0].name == 'kid', 'by time of change')
    found = await client.list(search='hello')
    need([c.name for c in found.conversations] == ['trip'] and found.conversations[0].hit.turn == 1, f'{found}')


async def replies(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            await client.open('trip', sampling=GREEDY)
            reply = client.continue_('trip', 'Hello!', max_tokens=20, logprobs=2)
            kinds, text, seen = [], '', []
            async for event in reply:
                kinds.append(type(event).__name__)
                if isinstance(event, messages.Delta):
                    text += event.text
                    seen += event.tokens
            need(kinds[0] == 'Accepted' and kinds[-1] == 'Done' and 'Delta' in kinds, f'{kinds}')
            need(reply.result.n_generated == len(seen) > 0, f'{reply.result}')
            need(all(len(token.top) == 2 and token.logprob < 0 for token in seen), 'log-probabilities')
            need(b''.join(token.text for token in seen).decode().startswith(text), 'texts of tokens')
            whole = await client.get('trip', turns=True, tokens=True, parts=True)
            need([word(messages.Role, t.role) for t in whole.turn_list] == ['user', 'assistant'], f'{whole}')
            need(whole.turn_list[1].text.decode() == text and whole.turn_list[1].parts[0].text == text, f'{whole}')
            need(len(whole.token_list) == whole.n_tokens, 'tokens')
            page = await client.get('trip', turns=True, max_turns=1, from_turn=1)
            need(page.first_turn == 1 and len(page.turn_list) == 1, f'{page}')
            page = await client.get('trip', turns=True, max_turns=1, before_turn=1)
            need(page.first_turn == 0 and len(page.turn_list) == 1, f'{page}')
            need(await client.attach('trip').text() == text, 'attached to what is done')
            need(await client.continue_('trip', at_turn=1, want_parts=True).text() == text, 'again')
            reply = client.continue_('trip', 'And now?', at_turn=0, max_tokens=3, stop=['zzz'], ignore_eos=True)
            await reply.text()
            need(word(messages.FinishReason, reply.result.finish) == 'length', f'{reply.result}')
            need((await client.get('trip')).n_turns == 2, 'edited')
            with fails('conflict'):
                await client.continue_('trip', 'x', expect_revision=1).text()
            with fails('not_found'):
                await client.continue_('nobody', 'x').text()


async def inputs(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            async def take(**given):
                await client.open('in', sampling=GREEDY)
                reply = client.continue_('in', max_tokens=0, **given)
                await reply.text()
                turns = (await client.get('in', turns=True)).turn_list
                await client.close('in')
                return [(word(messages.Role, turn.role), turn.text) for turn in turns]

            told = await client.tokenize('one two')
            need(b''.join(told.pieces).strip() == b'one two', f'{told}')
            need(await take(raw=b'\xff raw') == [('raw', b'\xff raw')], 'raw')
            need([role for role, _ in await take(tokens=told.tokens)] == ['raw'], 'tokens')
            need(await take(message='Be kind.', role='system') == [('system', b'Be kind.')], 'a role')
            need(await take(messages=[{'role': 'user', 'text': 'Hi'}, {'role': 'assistant', 'text': 'Ho'},
                                      messages.Message(role=messages.ROLE_USER, text='He')])
                 == [('user', b'Hi'), ('assistant', b'Ho'), ('user', b'He')], 'messages')
            need([role for role, _ in await take(given={'text': 'I said so.'})] == ['assistant'], 'given')
            with fails('invalid', 'state') as errors:
                await take(results=[{'call_id': 'nosuch', 'text': '5'}])
            need(errors[0].message, 'why')
            await client.close('in')
            with fails('unsupported'):
                await take(message='x', tools=[{'name': 'f', 'parameters': {'type': 'object'}}])
            await client.close('in')
            with fails('unsupported'):
                await take(message='x', tool_choice='')
            await client.close('in')
            await client.open('bound')
            schema = {'type': 'object', 'properties': {'n': {'enum': [7]}}, 'required': ['n'],
                      'additionalProperties': False}
            text = await client.continue_('bound', 'Say it.', json_schema=schema).text()
            need(json.loads(text) == {'n': 7}, text)
            text = await client.continue_('bound', gbnf='root ::= "yes"', sampling={'seed': 3}, background=True,
                                          wait=True).text()
            need(text == 'yes', text)
            found = await client.find([{'role': 'user', 'text': 'Say it.'}], session='none')
            need(found.conversation.name == 'bound' and (found.at_turn, found.n_messages) == (1, 1), f'{found}')
            found = await client.find([{'role': 'user', 'text': 'Else.'}], conversation='bound')
            need(found.conversation.name == 'bound' and found.n_messages == 0, f'{found}')
            need(not (await client.find([{'role': 'user', 'text': 'Else.'}])).HasField('conversation'), 'none')


async def quotas(client):
    own = {limit.name: limit for limit in (await client.quota()).limits}
    need(len(own) == 7 and own['max-conversations'].used == 1 and own['max-conversations'].value == 10000, f'{own}')
    need(not own['max-user-tokens'].HasField('value') and own['max-user-tokens'].used > 0, f'{own}')
    need(word(messages.QuotaOrigin, own['max-user-requests'].origin) == 'setting', f'{own}')
    group = {'gid': 54321}
    await client.quota(group, {'max-user-tokens': 5, 'max-conversations': 'none'})
    overrides = (await client.quota(overrides=True)).limits
    need([(o.subject.gid, o.name, o.HasField('value')) for o in overrides]
         == [(54321, 'max-conversations', False), (54321, 'max-user-tokens', True)], f'{overrides}')
    await client.quota(group, {'max-user-tokens': None, 'max-conversations': None})
    need(not (await client.quota(overrides=True)).limits, 'all are cleared')
    with fails('invalid'):
        await client.quota(group, {'max-dreams': 1})


async def memory(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            await client.open('trip', sampling=GREEDY)
            await client.continue_('trip', 'Hello!', max_tokens=5).text()
            need(word(messages.Residency, (await client.evict('trip')).residency) in ('spilled', 'cold'), 'evicted')
            need(word(messages.Residency, (await client.warm('trip')).residency) == 'resident', 'warm')
            need((await client.publish('trip', at_turn=1)).n_published > 0, 'published')
            need((await client.publish('trip', off=True)).n_published == 0, 'no longer')
            info = await client.model_info()
            need(info.name == 'confab-small' and info.n_vocab > 0, f'{info}')
            figures = await client.stats()
            need(figures['budget_max'] > 0 and figures['connections'] == 1, f'{figures}')
            every = await client.figures(with_users=True)
            need({stat.name for stat in every.stats} >= {'budget_max', 'connections'} and every.version and every.uptime_usec > 0, f'{every}')
            tokens = next(h for h in every.histograms if h.name == 'first_token')
            need(tokens.count == sum(tokens.buckets) > 0 and len(tokens.buckets) == len(tokens.bounds_usec) + 1, f'{tokens}')
            need([user.uid for user in every.users] == [every.own.uid] == [os.getuid()] and every.own.tokens > 0, f'{every.own}')
            need([rates.seconds for rates in every.own_rates] == [10, 60, 300] and every.own_rates[2].decoded > 0, f'{every.own_rates}')
            need((await client.figures(uid=os.getuid())).all_users is False, 'as the user is told')
            await quotas(client)


async def files(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client:
            await client.open('trip', sampling=GREEDY)
            await client.continue_('trip', 'Hello! ' * 60, max_tokens=5).text()
            turns = (await client.get('trip', turns=True)).turn_list
            with await client.export('trip') as exported:
                data = exported.file.read()
                exported.file.seek(0)
                need(len(data) == exported.size and exported.n_memory_tokens > 0, f'{exported.size}')
                copies = [await client.import_(exported.file, 'sealed'), await client.import_(data, 'bytes')]
            with fails('format', 'corrupt'):
                await client.import_(b'no export')
            pieces = client.export_stream('trip')
            streamed = b''
            async for piece in pieces:
                streamed += piece
            need(streamed == data and pieces.result.size == len(data), 'the same in the stream')
            behind = io.BytesIO(b'front' + data)
            behind.seek(5)
            copies += [await client.import_stream([data[:1], b'', data[1:]], 'stream'),
                       await client.import_(behind, 'behind')]
            with await client.export('trip', without_memory=True) as exported:
                need(exported.n_memory_tokens == 0 and exported.size < len(data), 'transcript alone')
            with fails('format', 'corrupt'):
                await client.import_stream([b'no ', b'export'])
            with fails('exists'):
                await client.import_stream([data], 'stream')
            for copy in copies:
                got = await client.get(copy, turns=True)
                need([t.text for t in got.turn_list] == [t.text for t in turns], copy.name)


async def watching(connect, _from_socket):
    with Daemon() as daemon:
        async with await connect(daemon.path) as client, await connect(daemon.path) as other:
            watch = client.watch()
            kinds, cursors = [], []
            async for notice in watch:
                kinds.append(word(messages.NoticeKind, notice.kind))
                cursors.append(notice.cursor)
                if kinds[-1] == 'model':
                    need(notice.model == 'confab-small', f'{notice}')
                    await other.open('seen')
                elif kinds[-1] == 'opened':
                    await other.close('seen')
                elif kinds[-1] == 'closed':
                    watch.cancel()
            need(kinds == ['model', 'opened', 'closed'] and watch.result is None, f'{kinds}')
            later = []
            watch = client.watch(cursor=cursors[1])
            async for notice in watch:
                later.append(word(messages.NoticeKind, notice.kind))
                if later[-1] == 'closed':
                    await client.cancel(request=watch.id)
            need(later == ['model', 'closed'], f'{later}')


async def owners(connect, _from_socket):
    if os.geteuid() != 0:
        return
    with Daemon() as daemon:
        async with await connect(daemon.path, uid=4321, tenant='nora') as nora, \
                await connect(daemon.path, tenant='ben') as ben:
            need(nora.owner == (4321, 'nora') and ben.owner == (0, 'ben'), f'{nora.owner} {ben.owner}')
            need((await nora.open('mine')).tenant == 'nora', 'hers')
            with fails('not_found'):
                await ben.get('mine')
        with fails('invalid'):
            await connect(daemon.path, tenant='x' * 200)


async def administration(connect, _from_socket):
    if os.geteuid() != 0:
        return
    with Daemon() as daemon:
        async with await connect(daemon.path) as client, await connect(daemon.path, uid=4321) as other:
            await client.open('trip', sampling=GREEDY)
            await client.continue_('trip', 'Hello!', max_tokens=5).text()
            settings = {setting.name: setting for setting in (await client.settings()).settings}
            need(settings['model'].origin == 'command line' and not settings['model'].pending, f'{settings["model"]}')
            users = (await client.users(order='tokens')).users
            need([(u.uid, u.conversations) for u in users][0] == (0, 1) and {u.uid for u in users} == {0, 4321}, f'{users}')
            archive = b''
            async for piece in client.backup():
                archive += piece
            need(archive.startswith(b'confab-backup/register.db\0') and b'"conversations":1' in archive, 'a backup')
            checking = client.check(rate=0)
            seen = [progress async for progress in checking]
            need(seen and all(0 <= p.done_bytes <= p.total_bytes and p.total_bytes > 4096 for p in seen), f'{seen}')
            checked = checking.result
            need(checked.conversations == 1 and checked.turns == 2 and checked.found == 0 and not checked.problems
                 and checked.bytes > 4096, f'{checked}')
            need((await client.drain(timeout_usec=1000000)).requests == 0, 'drained')
            with fails('shutdown') as errors:
                await other.open('mine')
            need(errors[0].retry, 'it will be possible again')
            await client.drain(off=True)
            await other.open('mine')
            need((await client.act_on_user(4321, 'purge', dry_run=True)).conversations == 1, 'what there is')
            need((await client.act_on_user(4321, 'purge')).conversations == 1, 'purged')
            with fails('not_found'):
                await other.get('mine')
            with fails('permission'):
                await other.users()


async def no_daemon(connect, _from_socket):
    with Daemon() as daemon:
        daemon.kill()
        with fails('no_daemon') as errors:
            await connect(daemon.path)
        need(errors[0].retry, 'it may come')
        with fails('no_daemon'):
            await connect(daemon.path + '.none')
        with fails('invalid'):
            await connect('/' + 'x' * 200)
        os.environ['CONFAB_SOCKET'] = daemon.path + '.named'
        with fails('no_daemon') as errors:
            await connect(None)
        need('.named' in errors[0].message, f'{errors[0]}')


main(declared, words, *both(conversations), *both(replies), *both(inputs), *both(memory), *both(files),
     *both(watching), *both(owners), *both(administration), *both(no_daemon))
