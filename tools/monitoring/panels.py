# SPDX-License-Identifier: MIT
"""The panels of Grafana's dashboard, as tables. dashboard.py makes its JSON of them.

An expression is PromQL with three words for what the variables choose, inside of the braces of a metric:

    @D   the daemons: instance, daemon and model
    @U   users of the daemons: those, and uid
    @G   the gateways: instance

A description says what the panel shows, and what to do when it looks bad. Legends name labels as Grafana does: {{model}}.
"""

DESCRIPTION = 'Daemons and gateways of confab, by the figures of GET /metrics. docs/monitoring.md says how they come into Prometheus.'

DAEMON = 'instance=~"$instance",daemon=~"$daemon",model=~"$model"'
USER = DAEMON + ',uid=~"$user"'
GATEWAY = 'instance=~"$instance"'
EACH = '{{model}} {{daemon}} at {{instance}}'

# name, label, query, what All stands for (None: the values that are listed)
VARIABLES = [
    ('instance', 'Instance', 'label_values(confab_daemon_up, instance)', None),
    ('daemon', 'Daemon', 'label_values(confab_daemon_up{instance=~"$instance"}, daemon)', '.*'),
    ('model', 'Model', 'label_values(confab_daemon_up{instance=~"$instance",daemon=~"$daemon"}, model)', '.*'),
    ('user', 'User', 'label_values(confab_user_requests{instance=~"$instance",daemon=~"$daemon",model=~"$model"}, uid)', '.*'),
]

# name, expression, color, title
ANNOTATIONS = [
    ('Alerts', 'ALERTS{alertname=~"Confab.*",alertstate="firing",instance=~"$instance"}', 'red', '{{alertname}} {{instance}}'),
    ('Restarts', 'resets(confab_uptime_seconds{@D}[2m]) > 0', 'blue', 'confabd was started: {{model}} {{daemon}} at {{instance}}'),
]


def expand(text):
    return text.replace('@D', DAEMON).replace('@U', USER).replace('@G', GATEWAY)


def queries_of(queries):
    return [(expand(expr), legend) for expr, legend in queries]


def stat(title, unit, queries, description, **more):
    return {'type': 'stat', 'title': title, 'unit': unit, 'queries': queries_of(queries), 'description': description, 'width': 4, 'height': 4, **more}


def lines(title, unit, queries, description, **more):
    return {'type': 'timeseries', 'title': title, 'unit': unit, 'queries': queries_of(queries), 'description': description, 'width': 8, 'height': 8,
            **more}


def rates(prefix, names, group=''):
    """Queries of counters, per second: [(name without @prefix, legend)]."""
    return [(f'sum{group}(rate({prefix}{name}[$__rate_interval]))', legend) for name, legend in names]


def frequencies(title, metric, description):
    return {'type': 'heatmap', 'title': title, 'unit': 's', 'width': 12, 'height': 8, 'description': description,
            'queries': queries_of([(f'sum by (le) (rate({metric}_bucket{{@D}}[$__rate_interval]))', '{{le}}')])}


def quantiles(metric, matchers):
    """Queries of the times below which half, nine of ten and 99 of 100 were."""
    return [(f'histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{matchers}}}[$__rate_interval])))', legend)
            for q, legend in (('0.5', 'p50'), ('0.9', 'p90'), ('0.99', 'p99'))]


UP = [(0, 'down', 'red'), (1, 'up', 'green')]
CODECS = [(0, 'raw', 'blue'), (1, 'LZ4', 'blue'), (2, 'KV', 'green')]
REASONS = [(0, 'as it is set', 'blue'), (1, 'soonest back', 'green'), (2, 'soonest back, disk not measured', 'green'), (3, 'disk-limit is near', 'orange'),
           (4, 'file system is nearly full', 'red'), (5, 'disk-writes-per-day is near', 'orange')]
REMOTE_STATES = [(0, 'none', 'blue'), (1, 'in use', 'green'), (2, 'left alone after a failure', 'orange')]
REUSED = 'increase(confab_daemon_tokens_reused_ram{@D}[$__range]) + increase(confab_daemon_tokens_reused_disk{@D}[$__range]) + ' \
         'increase(confab_daemon_tokens_reused_shared{@D}[$__range])'

OVERVIEW = [
    stat('Daemons', 'none', [('confab_daemon_up{@D}', EACH)],
         'Whether the gateway got an answer from each daemon. Down: systemctl status confabd on that machine, then journalctl -u confabd; the last lines '
         'say why it stopped or what it waits for.', values=UP, text='value_and_name', width=8),
    stat('Version', 'none', [('confab_build_info{@D}', '{{version}} of ' + EACH)],
         'What each daemon runs. After an upgrade an older version means that it was not restarted: systemctl restart confabd.', text='name', width=8),
    stat('Up since', 'dtdurations', [('confab_uptime_seconds{@D}', EACH)],
         'Time since the daemon was ready. Short, without anybody having restarted it: journalctl -u confabd says why it ended.', text='value_and_name',
         width=8),
    stat('Tokens generated', 'suffix:tokens/s', [('sum(rate(confab_daemon_tokens_decoded{@D}[$__rate_interval]))', 'generated')],
         'What all replies together got in the last moments. It is bounded by the machine, so many replies at once are each slower.', width=6),
    stat('Prompts not computed', 'percentunit',
         [(f'sum({REUSED}) / sum({REUSED} + increase(confab_daemon_tokens_prefilled{{@D}}[$__range]))', 'of prompt tokens')],
         'The part of prompt tokens in the time shown that was there already, in RAM or on disk. Low with clients that send whole histories: their '
         'requests do not find their conversations; see docs/http.md on what decides that.', width=6),
    stat('Requests at work', 'none', [('sum(confab_daemon_requests_active{@D})', 'at work')],
         'Requests that compute now, or write a reply.', width=6),
    stat('Waiting for room', 'none', [('sum(confab_daemon_requests_queued{@D})', 'queued')],
         'Requests that wait for memory which others use. Not 0 for long: the budget is too small for so many long conversations at once; raise '
         'pool-size, or lower max-user-requests.', steps=[(1, 'orange'), (10, 'red')], width=6),
    lines('Tokens per second', 'suffix:tokens/s',
          rates('confab_daemon_tokens_', [('decoded{@D}', 'generated'), ('prefilled{@D}', 'of prompts, computed'),
                                          ('recomputed{@D}', 'of these, computed before and lost')]),
          'What the engine computes. Tokens computed before and lost mean that memory is short in RAM and on disk: raise pool-size or disk-limit.'),
    lines('Requests per second', 'reqps', [('sum by (instance, daemon, model) (rate(confab_daemon_requests{@D}[$__rate_interval]))', EACH)],
          'Requests of all verbs, those of the gateway for its clients among them.'),
    lines('Requests in the daemon', 'none',
          [('sum(confab_daemon_requests_active{@D})', 'at work'), ('sum(confab_daemon_requests_queued{@D})', 'waiting for room'),
           ('sum(confab_daemon_requests_waiting{@D})', 'waiting for their conversation')],
          'At work, waiting for memory, and waiting because another request holds their conversation. What waits for room for long wants a larger '
          'pool-size.', stacked=True),
]

LATENCY = [
    lines('Time to the first token', 's', quantiles('confab_first_token_seconds', DAEMON),
          'From a request to the first token of its reply, in the daemon: what people wait for. The panels below are its parts: the one that is long says '
          'what to do.', width=12),
    frequencies('Time to the first token, how often', 'confab_first_token_seconds',
                'The same, by frequency: two bands are prompts that were in RAM, and prompts that were computed.'),
    lines('Queue', 's', quantiles('confab_queue_seconds', DAEMON),
          'From a request to its place among those at work. Long: requests wait for memory (raise pool-size) or for each other (more work than the '
          'machine can do).'),
    lines('Restore', 's', quantiles('confab_restore_seconds', DAEMON),
          'Until memory that was on disk is back in RAM. Long: the disk is slow (Speeds as measured) or busy; a larger pool-size needs it less often.'),
    lines('Prefill', 's', quantiles('confab_prefill_seconds', DAEMON),
          'Computing what is new of a prompt. Long: prompts are, or clients send histories that find no conversation (Prompts not computed).'),
    lines('Token', 's', quantiles('confab_token_seconds', DAEMON),
          'From one token of a reply to the next, as its reader sees it. Long: many replies are written at once, or threads is more than there are free '
          'processors.'),
    lines('Reply', 's', quantiles('confab_decode_seconds', DAEMON),
          'From the prompt to the last token of a reply: its tokens, times the time for each. max-reply of the gateway bounds replies without a limit.'),
    lines('Commit', 's', quantiles('confab_commit_seconds', DAEMON),
          'Until a turn is durable, which its client waits for: an fsync. Long: the disk of the state folder is slow, or other programs keep it busy.'),
]

MEMORY = [
    lines('Budget and use', 'bytes',
          [('sum(confab_daemon_budget{@D})', 'budget'), ('sum(confab_daemon_budget_ceiling{@D})', 'budget at most'),
           ('sum(confab_daemon_ledger_used{@D})', 'reserved'), ('sum(confab_daemon_ledger_used{@D} - confab_daemon_pool_idle_bytes{@D})', 'of requests at work')],
          'RAM for the memory of conversations. Reserved near the budget is as it should be: memory of idle conversations stays while there is room. '
          'What requests at work have near the budget is not: others wait then. A budget far below its most means that the machine is short of memory.'),
    lines('What the RAM is for', 'bytes',
          [('sum(confab_daemon_pool_idle_bytes{@D})', 'idle conversations'),
           ('sum(confab_daemon_pool_live_bytes{@D} - confab_daemon_pool_idle_bytes{@D})', 'conversations at work'),
           ('sum(confab_daemon_ledger_requests_used{@D})', 'requests and answers'),
           ('sum(confab_daemon_ledger_meta_used{@D} + confab_daemon_ledger_index_used{@D})', 'what is known of conversations'),
           ('sum(confab_daemon_io_memory_used{@D})', 'buffers of connections')],
          'Idle conversations go first when room is needed. Much for requests and answers: clients that do not read what they asked for.', stacked=True),
    lines('Where prompt tokens came from', 'suffix:tokens/s',
          rates('confab_daemon_tokens_', [('reused_ram{@D}', 'RAM'), ('reused_shared{@D}', 'another conversation'), ('reused_disk{@D}', 'disk'),
                                          ('prefilled{@D}', 'computed')]),
          'RAM costs nothing, disk some milliseconds, computing seconds. Much from disk: a larger pool-size pays. Much computed that was there before: '
          'see Tokens per second.', stacked=True),
    lines('Between RAM and disk', 'ops',
          rates('confab_daemon_', [('evictions{@D}', 'put out of RAM'), ('restores{@D}', 'brought back'),
                                   ('restores_skipped{@D}', 'computed instead, as that was faster')]),
          'Conversations that left the RAM and came back. Many of both for long: more conversations are in use than the budget holds.'),
    lines('Conversations', 'none',
          [('sum(confab_daemon_conversations_loaded{@D})', 'known to the engine'), ('sum(confab_daemon_conversations_resident{@D})', 'with memory in RAM'),
           ('sum(confab_daemon_conversations_pinned{@D})', 'pinned')],
          'What nobody has used since the start is in none of these. Many pinned leave little room for the others: confab admin users shows whose.'),
    lines('Memory pressure', 'none',
          [('sum(increase(confab_daemon_pressure_episodes{@D}[$__rate_interval]))', 'spans of pressure'),
           ('sum(increase(confab_daemon_budget_shrunk{@D}[$__rate_interval]))', 'budget made smaller')],
          'The machine, or the cgroup of confabd, was short of memory, and the daemon gave some back. Often: give confabd less (pool-size), or the other '
          'programs.', bars=True),
]

DISK = [
    stat('Codec', 'none', [('confab_daemon_spill_codec{@D}', EACH)], 'How memory is written to spill files now; see docs/spill.md.', values=CODECS),
    stat('Why this codec', 'none', [('confab_daemon_spill_codec_why{@D}', EACH)],
         'A limit that is near makes the daemon write smaller. Then raise disk-limit or disk-writes-per-day, free space on the file system of the state '
         'folder, or lower max-user-tokens.', values=REASONS, width=8),
    stat('In spill files', 'bytes', [('sum(confab_daemon_spill_disk_bytes{@D})', 'spill files')],
         'Space on disk. disk-limit bounds it: beyond it the memory that was used least recently is forgotten, and computed again when it is needed.'),
    stat('Written today', 'bytes', [('sum(confab_daemon_bytes_spill_today{@D})', 'today')],
         'Since midnight (UTC), also before a restart. disk-writes-per-day bounds it, so that a flash disk lasts.'),
    stat('Compression', 'suffix:times',
         [('sum(confab_daemon_spill_raw_in_bytes{@D}) / sum(confab_daemon_bytes_spill_written{@D})', 'smaller')],
         'How much smaller memory is in files, since the start. It depends on the model and its type of memory.'),
    lines('Space of spill files', 'bytes', [('confab_daemon_spill_disk_bytes{@D}', EACH)],
          'It grows with the conversations that are kept. confab admin users shows whose they are; expire of the gateway and confab prune make room.'),
    lines('Written and read', 'Bps',
          rates('confab_daemon_bytes_spill_', [('written{@D}', 'written'), ('read{@D}', 'read'), ('punched{@D}', 'given back')]),
          'Each block is written once, in the background, when its conversation is idle. Reads that stay near the speed of the disk make restores slow.'),
    lines('What failed', 'none',
          [(f'sum(increase(confab_daemon_{name}{{@D}}[$__rate_interval]))', legend) for name, legend in (
              ('spill_failures', 'writes that failed'), ('spill_refused', 'writes refused by a limit'), ('spill_corrupt', 'damaged records'),
              ('restore_failures', 'restores that failed'), ('blocks_lost', 'records that were not there'), ('unspilled_drops', 'evictions without a copy'))],
          'No conversation is lost by any of these: what is missing is computed again. Writes that failed and damaged records are faults of the disk or '
          'its file system: journalctl -u confabd names the file and the cause. Refused writes: a limit is too low.', bars=True),
    lines('Speeds as measured', 'Bps',
          [(f'avg(confab_daemon_spill_{name}_speed{{@D}})', legend) for name, legend in (
              ('disk', 'disk'), ('decode', 'decoding KV'), ('copy', 'copying raw'), ('encode', 'encoding KV'))],
          'By these the daemon chooses its codec. The disk is measured once there is something to read, 0 before. A disk that became slow shows here.',
          logarithmic=True, width=12),
    lines('Memory forgotten for a limit', 'bytes', [('increase(confab_daemon_reclaimed_bytes{@D}[$__rate_interval])', EACH)],
          'What was dropped from spill files to keep within disk-limit or disk-limit-per-user. It is computed again when it is needed: raise the limit if '
          'that happens to conversations in use.', bars=True, width=12),
]

REMOTE = [
    stat('Remote store', 'none', [('confab_daemon_remote{@D} * (2 - confab_daemon_remote_up{@D})', EACH)],
         'Where machines find each other\'s memory (remote). After a failure it is left alone for half a minute at most, and memory is computed: '
         'journalctl -u confabd says why.', values=REMOTE_STATES, width=12),
    stat('Sent today', 'bytes', [('sum(confab_daemon_bytes_remote_today{@D})', 'today')],
         'Since midnight (UTC), also before a restart. remote-writes-per-day bounds it.', width=12),
    lines('Sent and read, remote', 'Bps', rates('confab_daemon_bytes_remote_', [('sent{@D}', 'sent'), ('read{@D}', 'read')]),
          'Memory is sent in the background, during remote-write-share percent of the time at most, and read when a conversation comes from another machine.'),
    lines('Blocks, remote', 'ops',
          rates('confab_daemon_remote_', [('blocks_sent{@D}', 'sent'), ('blocks_read{@D}', 'read'), ('skipped{@D}', 'times computed, as that was faster')]),
          'Many sent and few read: conversations stay on their machines, or values are gone before they are wanted (more memory for the server, or a longer '
          'remote-keep). Much computed: the network or the server is slower than this machine computes.'),
    lines('What failed, remote', 'none',
          [(f'sum(increase(confab_daemon_remote_{name}{{@D}}[$__rate_interval]))', legend) for name, legend in (
              ('failures', 'calls that failed'), ('damaged', 'damaged blocks'))],
          'Nobody got a wrong answer: what does not come is computed. Failures: journalctl -u confabd names the server and the cause. Damaged blocks: '
          'something changes values there, or writes others under their names.', bars=True),
]

OF_USER = '{{uid}} {{tenant}}'


def by_user(expr):
    """The ten users with most; tenants are told apart."""
    return [(f'topk(10, sum by (uid, tenant) ({expr}))', OF_USER)]


USERS = [
    {'type': 'table', 'title': 'Users now', 'width': 24, 'height': 8,
     'queries': queries_of([(f'sum by (uid, tenant) (confab_user_{name}{{@U}})', legend) for name, legend in (
         ('ram_bytes', 'RAM'), ('disk_bytes', 'disk'), ('conversations', 'conversations'), ('tokens', 'tokens'), ('requests', 'requests now'))]),
     'units': ['bytes', 'bytes', 'none', 'short', 'none'],
     'description': 'Who has what: of the thousand users with most RAM. confab admin quota USER limits one, and settings like ram-share-per-user limit '
                    'all. Without rights to see all, it is the user of the token alone.'},
    lines('RAM of users', 'bytes', by_user('confab_user_ram_bytes{@U}'),
          'Memory of conversations in RAM; what two users share counts twice. One who keeps others out: ram-share-per-user.', stacked=True, width=12),
    lines('Disk of users', 'bytes', by_user('confab_user_disk_bytes{@U}'),
          'Spill files that the user pays for. Beyond disk-limit-per-user the memory of its oldest conversations is forgotten.', stacked=True, width=12),
    lines('Tokens generated for users', 'suffix:tokens/s', by_user('rate(confab_user_tokens_decoded_total{@U}[$__rate_interval])'),
          'Users share the machine evenly while they want more than it has. max-user-tokens-per-day bounds what one gets.', stacked=True),
    lines('Prompt tokens computed for users', 'suffix:tokens/s', by_user('rate(confab_user_tokens_prefilled_total{@U}[$__rate_interval])'),
          'Much for one user: long new prompts, or a client whose histories find no conversation.', stacked=True),
    lines('Requests of users', 'reqps', by_user('rate(confab_user_requests_total{@U}[$__rate_interval])'),
          'Requests of all verbs. max-user-requests bounds those in flight.', stacked=True),
]

FIRST = 'confab_gateway_first_token_seconds'
GATEWAYS = [
    lines('Answers by dialect', 'reqps', [('sum by (dialect) (rate(confab_gateway_answers_total{@G}[$__rate_interval]))', '{{dialect}}')],
          'Which interfaces are used. basic is what belongs to none: /health, /metrics, and paths that do not exist.', stacked=True),
    lines('Answers by status', 'reqps', [('sum by (status) (rate(confab_gateway_answers_total{@G}[$__rate_interval]))', '{{status}}')],
          '4xx are mistakes of clients, and limits (429). 5xx are daemons that are gone or overloaded: see Daemons, then journalctl -u confab-gateway.',
          stacked=True),
    lines('5xx of all answers', 'percentunit',
          [('sum by (dialect) (rate(confab_gateway_answers_total{@G,status="5xx"}[$__rate_interval])) / '
            'sum by (dialect) (rate(confab_gateway_answers_total{@G}[$__rate_interval]))', '{{dialect}}')],
          'The part of answers that failed by no fault of the client. Not 0: see journalctl -u confab-gateway.'),
    lines('Time to the first token, at the gateway', 's', quantiles(FIRST, DAEMON),
          'From the request to the first token of its reply: finding the conversation, waiting, restoring, computing the prompt. Beyond 60 s it is not '
          'told apart.', width=12),
    frequencies('Time to the first token at the gateway, how often', FIRST,
                'The same, by frequency: two bands are prompts that were in RAM, and prompts that were computed.'),
    lines('Tokens of replies', 'suffix:tokens/s',
          rates('confab_gateway_', [('generated_tokens_total{@D}', 'generated'), ('cached_tokens_total{@D}', 'of prompts, not computed'),
                                    ('prompt_tokens_total{@D}', 'of prompts, all')]),
          'What clients of HTTP asked for. Prompts that are mostly computed belong to clients whose histories differ from what was said.'),
    lines('Connections', 'none',
          [('sum(confab_gateway_connections{@G})', 'of clients'), ('sum(confab_gateway_connections_idle{@G})', 'of these, without a request'),
           ('sum(confab_gateway_lines{@G})', 'to daemons'), ('sum(confab_gateway_lines_idle{@G})', 'of these, waiting for use')],
          'Many of clients without a request: clients that keep connections; keep-alive of confab-gateway bounds how long.'),
    lines('New connections', 'cps',
          rates('confab_gateway_', [('connections_accepted_total{@G}', 'of clients'), ('lines_connected_total{@G}', 'to daemons'),
                                    ('lines_failed_total{@G}', 'to daemons, failed'), ('requests_refused_total{@G}', 'requests refused as HTTP')]),
          'Connections to daemons that fail: the daemon is gone, or refuses the gateway (trusted-users). Requests refused as HTTP: too long, too slow, or '
          'no HTTP at all.'),
    lines('Memory of bodies', 'bytes', [('confab_gateway_bodies_bytes{@G}', '{{instance}}')],
          'Bodies of requests that are being read or worked on. It stays small unless clients send slowly, or much.', width=12),
    lines('Requests over HTTP', 'reqps',
          [('sum(rate(confab_gateway_requests_total{@G}[$__rate_interval]))', 'requests'),
           ('sum(rate(confab_gateway_replies_total{@D}[$__rate_interval]))', 'replies made')],
          'All requests, and those of them for which a daemon made a reply.', width=12),
]

ROWS = [('Overview', OVERVIEW), ('Latency', LATENCY), ('Memory', MEMORY), ('Disk', DISK), ('Remote store', REMOTE), ('Users', USERS), ('Gateway', GATEWAYS)]
