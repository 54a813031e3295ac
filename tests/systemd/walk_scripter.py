# SPDX-License-Identifier: MIT
"""The scripter's walk: what a user does from sh, without a terminal. Each script has the exit status that it must have and
what it must say; none disturbs a conversation that it does not name."""
import json
import re

from debs import need
from walk import names, run_json, turns

# So that a reply that is not read stands still soon.
SETTINGS = 'output-high = 4K\noutput-low = 1K\n'

# What a script is about; the script, for bash in the home folder; its status, what standard output must be (a text: all of
# it; a pattern: somewhere in it), and a pattern that is somewhere in standard error.
ANY = re.compile('')

STATUSES = (
    ('a name that is taken', 'confab open list', 4, '', "'list' exists"),
    ('no such conversation', 'confab say nowhere hi', 3, '', "no conversation 'nowhere'"),
    ('no such pattern', "confab close --match 'zz*'", 3, '', 'zz'),
    ('wrong usage', 'confab say list hi --temperature warm', 2, '', "'warm' is not a number"),
    ('no such command', 'confab opne', 2, '', "unknown command 'opne'"),
    ('wrong usage as JSON', 'confab --json say 2>&-', 2, re.compile('"code":"usage"'), ''),
    ('no daemon', 'confab --socket /nowhere ls', 6, '', 'no daemon listens on /nowhere'),
    ('no daemon as JSON', 'confab --socket /nowhere --json ls 2>&-', 6, re.compile('"code":"no_daemon"'), ''),
    ('no text', "confab say list ''", 2, '', 'the text is empty'),
    ('nothing on standard input', 'confab say list </dev/null', 2, '', 'standard input is empty'),
    ('nothing to edit by', 'confab edit list 0 </dev/null', 2, '', 'standard input is empty'),
    ('beyond the context', 'yes hello | head -n 5000 | confab say list', 5, '', 'more than the context of 2048'),
    ('an edit beyond the context', 'yes hello | head -n 5000 | confab edit list 0 -', 5, '', 'more than the context of 2048'),
    ('an edit that cannot be', 'confab regenerate list --max-tokens 0', 1, '', 'nothing to do'),
    ('a regeneration that cannot be', 'confab regenerate list --logit-bias 99999=1', 1, '', 'token 99999'),
    ('one that waits for nobody', 'confab wait nowhere', 3, '', 'nowhere'),
    ('a schema that is none', 'echo "{" >bad.json; confab ask --json-schema bad.json hi', 1, '', ''),
    ('who acts for others', 'confab --as-uid 0 ls', 1, '', ''),
)

OUTPUTS = (
    ('a reply that was cut', 'confab ask -t 0 -m 3 --ignore-eos hi', 0, re.compile(r'\S'), 'the reply ended at 3 tokens'),
    ('quiet about it', 'confab ask -q -t 0 -m 3 --ignore-eos hi', 0, re.compile(r'\S'), '^$'),
    ('no output', 'confab ls >&-', 1, '', 'cannot write the output'),
    ('a full disk', 'confab ls >/dev/full', 1, '', 'cannot write the output: No space left'),
    ('a reply to a full disk', 'confab ask -m 4 hi >/dev/full', 1, '', 'No space left'),
    ('no standard error', 'confab say nowhere hi 2>&-', 3, '', ''),
    ('no colours in pipes', 'confab ls; confab help ask; confab log list', 0, re.compile(r'\A[^\x1b]+\Z'), r'\A[^\x1b]*\Z'),
    ('none if they are not wanted', 'NO_COLOR=1 TERM=xterm confab ls --color auto', 0, re.compile(r'\A[^\x1b]+\Z'), ''),
    ('a text before standard input', 'echo Milk. >doc; confab open doc >&2 && confab say doc -m 4 "Sum it up:" <doc >&2 && confab show doc', 0,
     re.compile('Milk\\.\n\nSum it up:'), ''),
    ('from a file', 'confab say doc -m 4 @doc >&2 && confab log doc --json', 0, re.compile('Milk'), ''),
    ('ask from a file leaves nothing', 'n=$(confab ls --names | wc -l); confab ask doc "And?" -m 4 <doc >&2; [ "$(confab ls --names | wc -l)" = "$n" ]', 0,
     '', ''),
    ('a list in a loop', 'printf "one\\ntwo\\n" >lines; while read -r l; do confab ask -n -q doc -m 2 --ignore-eos -- "$l" >&2; echo "$l"; done <lines',
     0, 'one\ntwo\n', ''),
    ('a loop whose list is not left alone', 'while read -r l; do confab say doc -m 2 "$l"; echo $?; done <lines', 0, re.compile('\\A2\n'),
     '-n leaves it alone'),
)

PLACES = (
    ('as cron', 'env -i /usr/bin/confab ls --names', 0, re.compile('^list$', re.M), ''),
    ('cron asks', 'env -i PATH=/usr/bin confab ask -q -t 0 -m 4 Hello </dev/null', 0, re.compile(r'\S'), '^$'),
    ('without standard input', 'env -i PATH=/usr/bin confab ask -q -t 0 -m 4 Hello <&-', 0, re.compile(r'\S'), '^$'),
    ('of a folder that is gone', 'mkdir gone; cd gone; rmdir ../gone; confab ls --names', 0, re.compile('^list$', re.M), ''),
    ('in another locale', 'LC_ALL=C confab open "Zoë ☃" && LC_ALL=C confab ls --names', 0, re.compile('^Zoë ☃$', re.M), ''),
    ('a dash in front', 'confab open -- -n && confab say -n -m 2 -- -n -n >&2 && confab close -- -n', 0, re.compile('^-n$', re.M), ''),
    ('two words', 'confab open "two words" && confab say "two words" -m 2 hi >&2 && confab close "two words"', 0,
     re.compile('^two words$', re.M), ''),
    ('a line break', "confab open $'two\\nlines'", 1, '', 'control character'),
    ('a name that looks like a number', 'confab open 12 || confab open "#3"', 1, '', 'not a number'),
    ('bytes that are no UTF-8', "confab open $'\\xff'; [ $? = 1 ] && printf '\\377' | confab ask -q -m 2 >&2", 1, '', 'UTF-8'),
    ('completion', '. /usr/share/bash-completion/completions/confab && complete -p confab', 0, re.compile('confab'), '^$'),
    ('completion without TAB', '. /usr/share/bash-completion/completions/confab; COMP_WORDS=(confab say li); COMP_CWORD=2; '
     'COMP_LINE="confab say li"; COMP_POINT=13; f=$(complete -p confab | sed "s/.*-F \\([^ ]*\\).*/\\1/"); "$f" confab li say; echo "${COMPREPLY[@]}"',
     0, re.compile('list'), ''),
    ('pages', 'cd /usr/share/man && ls man1/confab.1.gz man1/confab-say.1.gz man1/confab-admin.1.gz man5/confabd.conf.5.gz man7/confab-protocol.7.gz '
     'man8/confabd.8.gz | wc -l', 0, '6\n', '^$'),
    ('help of each command', 'for c in $(confab help | sed -n "s/^  \\([a-z][a-z]*\\).*/\\1/p"); do confab help $c >help && [ -s help ] && echo $c; done',
     0, re.compile(r'\A([a-z]+\n){30,}\Z'), '^$'),
)

# Signals, and several at once. A reply is held in the middle by a reader that reads no more of it: the daemon makes no more of
# it than fits into the pipe, the socket and output-high, and each token has much to tell. Not for Ctrl-C: a reply that is
# held sees it late. That one takes its time instead, since no token is a guess that comes true.
# A shell with -m does not shield its jobs from Ctrl-C.
HOLD = ('set -m; mkfifo pipe; confab open {0} >&2; confab say {0} --json --logprobs 20 -m 1500 --ignore-eos hi >pipe & p=$!; exec 3<pipe; '
        'grep -q -m 1 delta <&3')
REST = 'cat <&3 >/dev/null; wait $p; echo $?; rm pipe'
TOGETHER = (
    ('Ctrl-C keeps what is there',
     'set -m; confab open long >&2; confab say long -t 2 -m 1900 --ignore-eos hi >out & until [ -s out ]; do kill -0 $!; sleep 0.02; done; kill -INT $!; '
     'wait $!; echo $?; confab wait long; echo $?; confab show long --json | grep -o \'"finish":"[a-z]*"\'', 0,
     '130\n1\n"finish":"cancelled"\n', ''),
    ('nobody reads any more', f'{HOLD.format("unread")}; exec 3<&-; wait $p; echo $?; rm pipe; confab wait unread', 1, '141\n', ''),
    ('one holds it, one waits, the first is killed',
     f'{HOLD.format("held")}; confab say held hi; echo $?; confab say held -w -q -m 2 --ignore-eos hi >&2 & kill -TERM $p; {REST}; wait $!; echo $?',
     0, '4\n143\n0\n', 'another request holds'),
    ('left alone, and followed',
     'confab open away >&2; confab say away --detach -m 100 --ignore-eos hi | wc -c; confab attach -q away >all; [ -s all ]; echo $?; confab wait away', 0,
     '0\n0\n', ''),
    ('twenty at once on one conversation',
     'confab open race >&2; for i in $(seq 20); do confab say race -w -q -m 2 --ignore-eos "This is $i." >/dev/null & done; wait; '
     'confab show race --json | grep -o "This is [0-9]*" | sort -u | wc -l', 0, '20\n', ''),
    ('map in order, many at once',
     'seq 1 40 >in; confab map doc --jobs 8 --template "Is {} even?" -t 0 -m 4 <in >one 2>&2; confab map doc --jobs 1 --template "Is {} even?" -t 0 -m 4 <in >two; '
     'cmp one two && wc -l <one', 0, '40\n', ''),
    ('map goes on after a kill',
     'rm lines; mkfifo lines; confab map doc --jobs 2 --template "Is {} even?" -t 0 -m 4 --resume rec <lines >part & p=$!; exec 4>lines; cat in >&4; '
     'until [ -s rec ]; do kill -0 $p; sleep 0.01; done; kill -KILL $p; wait $p; exec 4>&-; n=$(wc -l <rec); '
     'confab map doc --jobs 8 --template "Is {} even?" -t 0 -m 4 --resume rec <in >all; cmp all one; echo $? $((n > 0)) $(wc -l <rec)', 0,
     '0 1 40\n', ''),
)


def look(what, script, done, status, out, err):
    need(done.returncode == status, f'{what}: status {done.returncode}, not {status}: {script}\n{done.stdout}{done.stderr}')
    ok = out.search(done.stdout) if isinstance(out, re.Pattern) else out == done.stdout
    need(ok, f'{what}: standard output is not {out!r}: {script}\n{done.stdout}\n{done.stderr}')
    need(re.search(err, done.stderr), f'{what}: standard error has no {err!r}: {script}\n{done.stderr}')


def run(box, user, rows):
    for what, script, status, out, err in rows:
        done = box.execute(('bash', '-c', f'cd; {script}'), user)
        look(what, script, done, status, out, err)


def check_json(box, user):
    """Each line of --json is an object, of successes and of failures, from commands of all kinds."""
    for words, status in (('ls',), 0), (('show', 'list'), 0), (('ask', 'list', '-m', '4', 'hi'), 0), (('stats',), 0), (('quota',), 0), \
            (('tokenize', 'hi'), 0), (('model',), 0), (('show', 'nowhere'), 3), (('say', 'list', '--max-tokens', 'x'), 2), (('wait', 'list'), 0):
        lines = run_json(box, *words, user=user, status=status)
        need(lines and all(isinstance(line, dict) for line in lines), f'{words}: {lines}')
        need(status == 0 or lines[-1].get('event') == 'error', f'{words}: {lines}')


def check_both(box):
    """Two users run the same script at once: names are their own."""
    script = ('cd; exec >/dev/null 2>&1; for i in 1 2 3 4 5; do confab open job-$i && confab say job-$i -m 3 --ignore-eos "This is $USER." || exit; done; '
              'confab close job-1 job-2')
    bob, carl = (f'runuser -u {user} -- env HOME=/home/{user} USER={user} bash -c \'{script}\'' for user in ('bob', 'carl'))
    # By their numbers: "wait -n" does not know of those that have ended before.
    box.run('bash', '-c', f'{bob} & bob=$!; {carl} & wait "$bob" && wait "$!"')
    for user in 'bob', 'carl':
        jobs = [name for name in names(box, user) if name.startswith('job-')]
        need(sorted(jobs) == ['job-3', 'job-4', 'job-5'], f'{user} has {jobs}')
        need(turns(box, user, 'job-4')[0] == ('user', f'This is {user}.'), 'who has said that?')
        box.run('confab', 'close', '--match', 'job-*', '--yes', user=user)


def walk(box, user):
    box.write('/etc/confab/confabd.conf', SETTINGS)
    box.run('confab', 'open', 'list', user=user)
    box.run('confab', 'say', 'list', '--temperature', '0', 'Milk and bread.', user=user)
    before = turns(box, user, 'list')
    for rows in STATUSES, OUTPUTS, PLACES, TOGETHER:
        run(box, user, rows)
    check_json(box, user)
    check_both(box)
    need(turns(box, user, 'list') == before, 'a script that failed has changed a conversation')
    box.run('confab', 'close', '--match', '*', '--yes', user=user)
    need(json.loads(box.run('confab', '--json', 'ls', user=user))['conversations'] == [], 'something is left behind')
