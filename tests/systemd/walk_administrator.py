# SPDX-License-Identifier: MIT
"""The administrator's walk: three users with habits of their own on one daemon, and what befalls it between installation
and removal. A step that disturbs somebody looks at the others too: what they have said, and each bit of how it goes on."""
import threading

import debs
from debs import need, unit
from walk import USERS, Memory, Reply, names, number, run_json, stats, turns, users

CONF = '/etc/confab/confabd.conf'
SETTINGS = """# mine
pool-size = 64M
spill-delay = 20ms
list-page = 50
admin-group = keepers
max-active = 4
output-high = 4K
output-low = 1K
"""
OTHER = ('--socket', '/run/confab/other.sock')
DROP_IN = '/etc/systemd/system/confabd.service.d/quick.conf'
MIB = 1 << 20
N_NOTES = 16
# About 200 tokens, others for each number.
NOTE = f'''for i in $(seq {N_NOTES}); do
    confab open note-$i
    confab say -n note-$i --max-tokens 4 "$(seq -s " " $((i * 1000)) $((i * 1000 + 30)))"
done'''
# Seconds of work: no token is a guess that comes true.
LONG = '''for i in 9 10 11 12; do
    confab say note-$i -n --detach --ignore-eos --max-tokens 1500 -t 2 "Go on." >/dev/null
done'''


def settle(box):
    """Anna has one long conversation, Bob many short ones, Carl a system message and forks. Root looks after them."""
    box.write(CONF, SETTINGS)
    box.run('groupadd', '--system', 'keepers')
    box.run('groupadd', 'students')
    box.run('useradd', '--create-home', '--groups', 'keepers', 'olga')
    for name in 'bob', 'carl':
        box.run('usermod', '--append', '--groups', 'students', name)
    box.run('systemctl', 'restart', 'confabd')
    box.run('confab', 'open', 'trip', user='anna')
    for words in 'My name is Nora.', 'I live in Oslo.', 'What is my name?':
        box.run('confab', 'say', 'trip', '--temperature', '0', words, user='anna')
    box.run('sh', '-e', '-c', NOTE, user='bob')
    box.run('sh', '-e', '-c', 'confab open list --system "You are brief."; confab say list "Milk."; confab fork list other',
            user='carl')
    return Memory(box, [('anna', 'trip'), ('bob', 'note-1'), ('bob', 'note-16'), ('carl', 'list'), ('carl', 'other')])


# Settings, limits, acts

def check_settings(box):
    """Value, origin, what waits for a restart; what cannot be taken is refused by name, and nothing is clamped."""
    shown = box.run('confab', 'admin', 'settings', '--changed')
    need(f'list-page = 50  # {CONF}:4' in shown, f'where a setting comes from: {shown}')
    box.write(CONF, SETTINGS.replace('list-page = 50', 'list-page = 60\nthreads = 1'))
    shown = box.run('confab', 'admin', 'settings', user='olga')
    need('list-page = 50' in shown and 'now 60: needs a reload' in shown and 'now 1: needs a restart' in shown, shown)
    box.run('systemctl', 'reload', 'confabd')
    box.wait('the reload is taken', lambda: 'list-page = 60' in box.run('confab', 'admin', 'settings', 'list-page'))
    for wrong in 'max-active = 4096', 'list-page = 10000', 'context = 8192':
        box.write('/root/wrong.conf', f'{wrong}\n')
        done = box.execute(('confabd', '--check', '--defaults=/usr/share/confab/confabd.conf', '--config=/root/wrong.conf'))
        need(done.returncode in (2, 3) and wrong.split()[0] in done.stdout + done.stderr,
             f'{wrong}: {done.returncode} {done.stdout}{done.stderr}')
    box.write(CONF, SETTINGS)
    box.run('systemctl', 'reload', 'confabd')


def refused(box, user, limit, *words, flags=()):
    """A limit is reached: the message has the limit, the use and the remedy, also as JSON."""
    [error] = run_json(box, *flags, *words, user=user, status=5)
    text = error['message']
    need(error['code'] == 'limit' and f'({limit} = ' in text and 'confab admin quota' in text, f'{limit}: {error}')
    return text


def quota(box, whom, *changes):
    [answer] = run_json(box, 'admin', 'quota', whom, *changes)
    return {limit['name']: limit for limit in answer['limits']}


def check_quotas(box):
    """Each limit of a user is reached, at once and without a restart; of a group and of tenants, too."""
    quota(box, 'bob', f'max-conversations={N_NOTES}')
    need(f'has {N_NOTES} conversations' in refused(box, 'bob', 'max-conversations', 'open', 'more'), 'the use is told')
    quota(box, '@students', 'max-user-tokens=50')
    for who, name in ('bob', 'note-1'), ('carl', 'list'):
        need('tokens in all' in refused(box, who, 'max-user-tokens', 'say', name, 'The hills and the rivers. ' * 3), 'the use is told')
    quota(box, '@students', 'max-user-tokens=default')
    quota(box, 'bob', 'max-user-tokens-per-day=1')
    need('tokens today' in refused(box, 'bob', 'max-user-tokens-per-day', 'say', 'note-1', 'hi'), 'the use is told')
    quota(box, 'bob', 'max-user-tokens-per-day=default', 'max-user-requests=1')
    reply = Reply(box, 'bob', 'say', 'note-2', 'Go on.')
    need('has 1 request in flight' in refused(box, 'bob', 'max-user-requests', 'say', 'note-1', 'hi'), 'the use is told')
    box.run('confab', 'admin', 'cancel', 'bob')
    reply.end(0, 1, 130)
    quota(box, 'bob', 'max-user-requests=default', 'max-user-connections=0')
    refused(box, 'bob', 'max-user-connections', 'ls')
    need('trip' in names(box, 'anna'), 'another user is not held up')
    quota(box, 'bob', 'max-user-connections=default', 'disk-limit-per-user=0')
    box.run('confab', 'say', 'note-3', '--max-tokens', '4', 'hi', user='bob')
    said = box.run('confab', 'evict', 'note-3', user='bob', status=1)
    need('disk-limit-per-user = 0' in said and 'computed again' in said, f'what is lost by evicting: {said}')
    after = quota(box, 'bob', 'disk-limit-per-user=default', 'ram-share-per-user=1%')
    need(after['ram-share-per-user']['origin'] == 'user', f'where it comes from: {after}')
    box.run('confab', 'say', 'note-4', '--max-tokens', '4', 'hi', user='bob')
    box.wait('what is beyond the share of RAM goes out', lambda: used(box, 'bob')['ram_bytes'] <= 0.64 * MIB + 2 * 81920)
    tenant = ('--as-uid', box.uid('bob'), '--tenant', 'web')
    quota(box, 'bob:*', 'max-conversations=0')
    refused(box, None, 'max-conversations', 'open', 'x', flags=tenant)
    quota(box, 'bob:web', 'max-conversations=1')
    box.run('confab', *tenant, 'open', 'x')
    refused(box, None, 'max-conversations', 'open', 'y', flags=tenant)
    box.run('confab', 'admin', 'purge', 'bob:web', '--yes')
    quota(box, 'bob', 'ram-share-per-user=default', 'max-conversations=default')
    for whom in 'bob:*', 'bob:web':
        quota(box, whom, 'max-conversations=default')
    need('no limit is overridden' in box.execute(('confab', 'admin', 'quota')).stderr, 'an override is left')
    box.run('confab', 'admin', 'quota', 'bob', 'max-conversations=9', user='anna', status=1)


def used(box, name):
    return users(box)[box.uid(name), None]


def check_fairness(box):
    """One user has all places at work; another is answered meanwhile, and goes on when the first is stopped."""
    box.run('sh', '-e', '-c', LONG, user='bob')
    box.run('confab', 'ask', 'trip', '--max-tokens', '4', 'What is my name?', user='anna')
    need(used(box, 'bob')['requests'] > 0, 'another user had to wait for all of them')
    reply = Reply(box, 'anna', 'ask', 'trip', 'Tell me a story.', length=300)
    need('request' in box.run('confab', 'admin', 'cancel', 'bob', user='olga'), 'what was cancelled')
    box.wait('the requests of one user end', lambda: used(box, 'bob')['requests'] == 0)
    reply.end(0)


def check_acts(box):
    """Status and users; evict and close for one user, by a member of the group. A user may not, and is told who may."""
    status = box.run('confab', 'admin', 'status', user='olga')
    need('confab-small' in status and 'bob' in status, f'status: {status}')
    before = {name: used(box, name) for name in USERS}
    need(before['bob']['conversations'] == N_NOTES and before['carl']['tokens_decoded'] > 0, f'users: {before}')
    for words in ('users',), ('status',), ('purge', 'bob', '--yes'), ('evict', 'bob'), ('drain',):
        need('admin-group' in box.run('confab', 'admin', *words, user='anna', status=1), 'who may')
    for name, conversation in ('anna', 'trip'), ('carl', 'list'):
        box.run('confab', 'warm', conversation, user=name)
    before = {name: used(box, name) for name in USERS}
    box.run('confab', 'admin', 'evict', 'bob', user='olga')
    after = {name: used(box, name) for name in USERS}
    need(after['bob']['ram_bytes'] == 0 and after['bob']['disk_bytes'] > 0, f'evicted: {after}')
    need(all(after[name]['ram_bytes'] == before[name]['ram_bytes'] > 0 for name in ('anna', 'carl')), f'others: {before} {after}')
    need('bob' in box.run('confab', 'ls', '--all', user='olga'), 'whose the conversations are')
    box.run('confab', 'admin', 'close', f'#{number(box, "bob", "note-5")}')
    need('note-5' not in names(box, 'bob'), 'the conversation is still there')
    lines = box.journal('-u', 'confabd', '-p', 'notice')
    need(all(act in lines for act in ('evict', 'closes', 'changing max-conversations', 'cancel')), f'acts in the journal: {lines}')
    need(str(box.uid('olga')) in lines, 'who did it is in the journal')
    own = stats(box)
    need('budget' in own and 'budget' not in run_json(box, 'stats', user='carl')[0], 'figures of all users are for administrators')


# What befalls a machine

def check_pressure(box, memory, kept):
    """A neighbour takes the memory of the machine: idle memory goes out of RAM, nobody's reply is another. Whether the
    budget grows back is looked at later."""
    before = stats(box)
    with memory.pressed() as press:
        def under_pressure():
            press.keep_up()
            return stats(box)

        box.wait('memory is short', lambda: under_pressure()['budget_asked'] < before['budget'])
        box.wait('idle memory goes', lambda: under_pressure()['pool_idle_bytes'] < before['pool_idle_bytes'])
        kept.compare('while memory is short')
        box.run('confab', 'say', 'note-6', '--max-tokens', '4', 'hi', user='bob')
    lines = box.journal('-u', 'confabd')
    need('memory is short (' in lines, 'the journal tells of it')


def check_growth(box):
    box.wait('the budget is back', lambda: stats(box)['budget'] == 64 * MIB)


def check_watchdog(box, kept):
    """All threads of the daemon stand still: it is killed and started again, and conversations go on."""
    # Quicker than as installed, and only for this: a busy machine could not keep it up.
    box.write(DROP_IN, '[Service]\nWatchdogSec=2s\nRestartSec=100ms\n')
    box.run('systemctl', 'daemon-reload')
    box.run('systemctl', 'restart', 'confabd')
    before = unit(box, 'confabd', 'InvocationID')
    box.run('systemctl', 'kill', '--kill-who=main', '--signal=STOP', 'confabd')
    box.wait('a new daemon', lambda: unit(box, 'confabd', 'InvocationID') not in ('', before))
    box.run('rm', DROP_IN)
    box.run('systemctl', 'daemon-reload')
    box.run('systemctl', 'restart', 'confabd')
    need('Watchdog timeout' in box.journal('-u', 'confabd'), 'it was not the watchdog')
    kept.compare('after the watchdog')


def check_kill(box, kept):
    """The daemon is killed during a reply: its client is told at once, what was acknowledged is there (the question, too:
    the reply had begun), and the next try gets the reply."""
    said = turns(box, 'bob', 'note-7')
    reply = Reply(box, 'bob', 'say', 'note-7', 'Go on.')
    box.run('systemctl', 'kill', '--kill-who=main', '--signal=KILL', 'confabd')
    told = reply.end(1)
    need(told['event'] == 'error' and told['retry'], f'the client is not told to try again: {told}')
    now = turns(box, 'bob', 'note-7')
    need(now == [*said, ('user', 'Go on.')], f'of {said} there is {now}')
    box.run('confab', 'say', 'note-7', '--no-input', '--max-tokens', '4', user='bob')
    need([role for role, _ in turns(box, 'bob', 'note-7')[-2:]] == ['user', 'assistant'], 'there is no reply')
    kept.compare('after a kill')


def check_broken(box):
    """Daemons that cannot start: clients hear why, they are not started again without end, and mending the cause is all that
    has to be done. Instances of their own, so that nobody else is held up."""
    causes = {'wrong': ('bogus = 3', 'bogus'), 'hidden': ('model = /home/anna/model.gguf', 'ProtectHome')}
    for name, (line, words) in causes.items():
        box.write(f'/etc/confab/confabd@{name}.conf', f'pool-size = 64M\n{line}\n')
        box.run('systemctl', 'start', f'confabd@{name}.socket')
        [error] = run_json(box, '--socket', f'/run/confab/{name}.sock', 'ls', user='anna', status=6)
        need(error['code'] == 'unavailable' and words in error['message'], f'why it does not start: {error}')
    for name in causes:
        # It stays for a while, to tell others too.
        box.wait('it ends by itself', lambda name=name: unit(box, f'confabd@{name}', 'ActiveState') == 'failed' or
                 unit(box, f'confabd@{name}', 'NRestarts') != '0')
        need(unit(box, f'confabd@{name}', 'NRestarts') == '0', 'it was started again by itself')
        box.write(f'/etc/confab/confabd@{name}.conf', 'pool-size = 64M\n')
        box.run('confab', '--socket', f'/run/confab/{name}.sock', 'open', 'well', user='anna')
        box.run('systemctl', 'stop', f'confabd@{name}.socket', f'confabd@{name}.service')


def check_disk(box, kept):
    """All that is on disk is read while the daemon works. Damaged memory is told and forgotten, nobody goes on otherwise."""
    box.run('confab', 'admin', 'evict', 'bob')
    need('no problems' in box.run('confab', 'admin', 'check', '--rate', 'none', user='olga'), 'what is sound has problems')
    box.run('sh', '-c', 'f=$(ls -S /var/lib/confab/spill/* | head -n 1); printf damage | dd of="$f" bs=1 seek=20000 conv=notrunc')
    done = box.execute(('confab', 'admin', 'check', '--rate', 'none'))
    need(done.returncode == 8 and 'forgotten' in done.stdout, f'damage: {done.returncode} {done.stdout}{done.stderr}')
    need('no problems' in box.run('confab', 'admin', 'check', '--rate', 'none'), 'what was damaged is still there')
    kept.compare('after damage')


# Backup, upgrade

def check_backup(box, kept):
    """A backup during a reply, restored as the folder of another daemon: the same conversations, to the bit."""
    reply = Reply(box, 'bob', 'say', 'note-8', 'Go on.')
    box.run('confab', 'admin', 'backup', '/root/backup.tar', user=None)
    box.run('confab', 'admin', 'cancel', 'bob')
    reply.end(0, 1, 130)
    need(box.ask('stat', '-c', '%a %U', '/root/backup.tar') == '600 root', 'others may read the backup')
    [restored] = run_json(box, 'admin', 'restore', '/root/backup.tar', '/var/lib/confab@other', '--owner', 'confab')
    need(restored['conversations'] >= N_NOTES + 2, f'restored: {restored}')
    box.run('confab', 'admin', 'restore', '/root/backup.tar', '/var/lib/confab@other', '--owner', 'confab', status=4)
    box.write('/etc/confab/confabd@other.conf', 'pool-size = 64M\n')
    box.run('systemctl', 'start', 'confabd@other.socket')
    kept.compare('restored', *OTHER)
    for name in USERS:
        need(names(box, name, *OTHER) == names(box, name), f'{name} has other conversations')


def check_register(box):
    """A register that was emptied is no new one: the daemon says so, and deletes nothing."""
    box.run('confab', *OTHER, 'warm', 'trip', user='anna')
    box.run('systemctl', 'stop', 'confabd@other.service')
    spilled = box.run('sh', '-c', 'ls /var/lib/confab@other/spill')
    need(spilled, 'a daemon that stops leaves the memory on disk')
    box.run('sh', '-c', 'rm -f /var/lib/confab@other/register.db-*; : >/var/lib/confab@other/register.db')
    [error] = run_json(box, *OTHER, 'ls', user='anna', status=6)
    need('register' in error['message'], f'why it does not start: {error}')
    need(box.run('sh', '-c', 'ls /var/lib/confab@other/spill') == spilled, 'files of memory were deleted')
    box.run('systemctl', 'stop', 'confabd@other.socket', 'confabd@other.service')


def check_closed(box):
    """What a user closes is gone from the files."""
    box.run('sh', '-e', '-c', 'confab open diary; confab say diary --max-tokens 2 "The word is xylograph."', user='carl')
    find = ('sh', '-c', 'grep -c -a xylograph /var/lib/confab/register.db* | grep -v ":0"')
    need(box.ask(*find), 'it is not there before')
    box.run('confab', 'close', 'diary', user='carl')
    box.wait('nothing of it is left', lambda: not box.ask(*find))


def check_upgrade(box, later, kept):
    """Drained, then upgraded while clients come and go: none is refused, and the settings stay."""
    drained = box.run('confab', 'admin', 'drain', user='olga')
    need('all memory is on disk' in drained, f'drained: {drained}')
    [error] = run_json(box, 'say', 'trip', 'hi', user='anna', status=6)
    need(error['code'] == 'shutdown' and error['retry'], f'new work is refused: {error}')
    listed, done, seen = names(box, 'carl'), threading.Event(), []

    def look():
        while not done.is_set():
            seen.append(box.execute(('confab', 'ls', '--names'), 'carl'))

    client = threading.Thread(target=look)
    client.start()
    try:
        debs.install(box, later)
    finally:
        done.set()
        client.join()
    wrong = [s for s in seen if s.returncode or s.stdout.split() != listed]
    need(len(seen) > 10 and not wrong, f'{len(wrong)} of {len(seen)} clients were refused: {wrong[:1]}')
    need(box.ask('dpkg-query', '-W', '-f=${Version}', 'confabd').endswith('+next'), 'it is not the higher version')
    need(box.read(CONF) == SETTINGS, 'the upgrade changed the settings')
    box.run('confab', 'say', 'note-9', '--max-tokens', '4', 'hi', user='bob')
    kept.compare('after the upgrade')


def check_purge(box):
    """A user leaves: nothing of theirs is left, and the others have what they had."""
    before = {name: names(box, name) for name in USERS}
    box.run('confab', 'admin', 'purge', 'carl', status=2)
    box.run('confab', 'admin', 'purge', 'carl', '--yes')
    need(names(box, 'carl') == [] and used(box, 'carl')['disk_bytes'] == 0, 'something is left')
    need(all(names(box, name) == before[name] for name in ('anna', 'bob')), 'others have lost something')


def check_journal(box):
    """Mistakes of users are no errors of the daemon, and acts of administrators are none either."""
    lines = box.journal('-u', 'confabd', '-p', 'err')
    need('confabd' not in lines and not lines.strip(), f'errors in the journal:\n{lines}')
