/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "daemon/settings.h"
#include "engine/engine.h"
#include "proto/proto.h"
#include <syslog.h>

static const struct setting_choice kv_types[] = {
        {"f16", ENGINE_KV_F16}, {"f32", ENGINE_KV_F32}, {"q8_0", ENGINE_KV_Q8_0}, {NULL, 0}};
static const struct setting_choice yes_no[] = {{"yes", 1}, {"no", 0}, {NULL, 0}};
static const struct setting_choice off_on[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct setting_choice auto_off[] = {{"auto", 1}, {"off", 0}, {NULL, 0}};
static const struct setting_choice isas[] = {{"auto", UINT32_MAX}, {"generic", ENGINE_ISA_GENERIC},
        {"avx2", ENGINE_ISA_AVX2}, {"avx-vnni", ENGINE_ISA_AVX_VNNI}, {"avx512", ENGINE_ISA_AVX512},
        {"avx512-vnni", ENGINE_ISA_AVX512_VNNI}, {"neon", ENGINE_ISA_NEON},
        {"neon-dotprod", ENGINE_ISA_NEON_DOTPROD}, {NULL, 0}};
static const struct setting_choice codecs[] = {{"auto", UINT32_MAX}, {"kv", ENGINE_CODEC_KV},
        {"lz4", ENGINE_CODEC_LZ4}, {"raw", ENGINE_CODEC_RAW}, {NULL, 0}};
static const struct setting_choice log_levels[] = {{"error", LOG_ERR}, {"warning", LOG_WARNING},
        {"notice", LOG_NOTICE}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}, {NULL, 0}};

#define USEC 1000000ull
#define AT(field) .offset = offsetof(struct settings, field)

const struct setting settings_table[] = {
        {"model", SETTING_TEXT, AT(model), .metavar = "FILE",
                .help = "Model file (GGUF). Required."},
        {"socket", SETTING_TEXT, AT(socket), .initial = "/run/confab/confab.sock",
                .metavar = "PATH",
                .help = "Unix socket to listen on; its folder is made if missing. Not used when "
                        "the service manager passes sockets."},
        {"state", SETTING_TEXT, AT(state), .initial = "/var/lib/confab", .metavar = "DIR",
                .help = "Folder of the register and the spill files; made with mode 0700 if "
                        "missing."},
        {"store", SETTING_TEXT, AT(store), .metavar = "URI",
                .help = "Keep the register on a PostgreSQL server, which several daemons with the "
                        "same "
                        "model may share, in place of a file in the state folder: "
                        "postgresql://USER@HOST/DATABASE, as libpq takes it. Without a password: "
                        "settings are shown to administrators; name a file by ?passfile=FILE. See "
                        "cluster.md."},
        {"store-timeout", SETTING_DURATION, AT(store_timeout), USEC / 10, 3600 * USEC, "10s",
                .metavar = "TIME",
                .help = "With store: how long requests wait for a server that does not answer, "
                        "before "
                        "they fail."},
        {"lease-time", SETTING_DURATION, AT(lease_time), USEC, 3600 * USEC, "15s",
                .metavar = "TIME",
                .help = "With store: after so long without a sign of life other machines may take "
                        "the "
                        "conversations that this one holds. The same on all machines."},
        {"address", SETTING_TEXT, AT(address), .metavar = "URL",
                .help = "With store: where the confab-gateway of this machine is reached from the "
                        "others, "
                        "https://HOST[:PORT]. They tell it to whoever asks them for a conversation "
                        "that is "
                        "in use here."},
        {"remote", SETTING_TEXT, AT(remote), .metavar = "URI",
                .help = "Keep copies of the memory of conversations on a Valkey or Redis server, "
                        "where machines with the same store find what others have computed: "
                        "redis://HOST[:PORT], with TLS rediss://HOST[:PORT], for a cluster "
                        "several of HOST[:PORT] with commas between, redis:///PATH for a Unix "
                        "socket. Without a name or a password: settings are shown to "
                        "administrators. See cluster.md."},
        {"remote-user", SETTING_TEXT, AT(remote_user), .metavar = "NAME",
                .help = "With remote: the user of that server. None: its default user."},
        {"remote-password-file", SETTING_TEXT, AT(remote_password_file), .metavar = "FILE",
                .help = "With remote: the first line of this file is the password. It belongs to "
                        "the user whom confabd runs as, and nobody else may read it; it is read "
                        "at the start. A credential of the service will do."},
        {"remote-ca-file", SETTING_TEXT, AT(remote_ca_file), .metavar = "FILE",
                .help = "With remote = rediss://...: certificates (PEM) of those whose signature "
                        "is trusted. None: those whom the system trusts."},
        {"remote-timeout", SETTING_DURATION, AT(remote_timeout), USEC / 100, 60 * USEC, "1s",
                .metavar = "TIME",
                .help = "With remote: how long the server may say nothing. Then what was wanted "
                        "of it is computed, and it is left alone for a while."},
        {"remote-keep", SETTING_DURATION, AT(remote_keep), 60 * USEC, 3650 * 86400 * USEC,
                "604800s", .metavar = "TIME",
                .help = "With remote: how long memory that nobody uses stays there. The default "
                        "is a week."},
        {"remote-write-share", SETTING_COUNT, AT(remote_write_share), 1, 100, "25",
                .metavar = "PERCENT",
                .help = "With remote: part of the time in which memory is sent there, so that the "
                        "network is left to others."},
        {"remote-writes-per-day", SETTING_SIZE, AT(remote_writes_per_day), 1ull << 20, 1ull << 60,
                "none", .zero = "none", .metavar = "BYTES",
                .help = "With remote: bytes that are sent there within a day (UTC). What comes "
                        "beyond it waits for the next day."},
        {"config", SETTING_TEXT, AT(config), .metavar = "FILE", .flag_only = true,
                .help = "Read settings from this file first, then from the files FILE.d/*.conf by "
                        "their names."},
        {"defaults", SETTING_TEXT, AT(defaults), .metavar = "FILE", .flag_only = true,
                .help = "Read settings from this file and from FILE.d/*.conf before those of "
                        "--config, which may then be missing."},
        {"model-fingerprint", SETTING_TEXT, AT(model_fingerprint), .metavar = "HEX",
                .help = "Start only with the model of this fingerprint: what --check and confab "
                        "model print, or the first 16 digits of it, which stand for the weights "
                        "alone."},
        {"verify-model", SETTING_CHOICE, AT(verify_model), .initial = "no", .choices = yes_no,
                .metavar = "YES|NO",
                .help = "Read the whole model file at each start for its fingerprint. no: only "
                        "when it is another file, or was changed, since it was last read."},
        {"chat-format", SETTING_TEXT, AT(chat_format), .initial = "auto", .metavar = "NAME",
                .help = "How messages are written as tokens. auto: by the model's own chat "
                        "template; "
                        "by the built-in family that it resembles if it cannot be used; else only "
                        "raw text is possible. none: only raw text. Or the name of a family, for a "
                        "model without template (chatml, llama3, ...)."},
        {"pool-size", SETTING_SIZE, AT(pool_size), 1ull << 20, 1ull << 50, "auto", .zero = "auto",
                .metavar = "BYTES",
                .help = "Budget of RAM for the memory of conversations. What does not fit is "
                        "spilled to disk. auto: what the system, or the limit of a cgroup "
                        "(version 1 or 2, nested ones too), has to spare, now and later."},
        {"pressure", SETTING_CHOICE, AT(pressure), .initial = "yes", .choices = yes_no,
                .metavar = "YES|NO",
                .help = "Let idle memory go, step by step, while memory is short for this process. "
                        "No request fails for it; seconds after it the budget is back."},
        {"threads", SETTING_COUNT, AT(threads), 1, 1024, "auto", .zero = "auto", .metavar = "N",
                .help = "Threads that compute. auto: one for each CPU this process may use, but "
                        "no more than a CPU quota of its cgroups pays for."},
        {"context", SETTING_COUNT, AT(context), 16, 1u << 24, "auto", .zero = "auto",
                .metavar = "N",
                .help = "Longest conversation, in tokens. auto: what the model was trained for, "
                        "which is "
                        "also the most."},
        {"kv-type", SETTING_CHOICE, AT(kv_type), .initial = "f16", .choices = kv_types,
                .metavar = "TYPE",
                .help = "How keys and values are kept: f16, f32 (twice as large, exact), or q8_0 "
                        "(half as large, rounded more). Changing it makes every conversation "
                        "compute its memory again."},
        {"batch-tokens", SETTING_COUNT, AT(batch_tokens), 1, ENGINE_MAX_BATCH, "256",
                .metavar = "N", .help = "Tokens in one step, prompts and generation together."},
        {"prefill-share", SETTING_COUNT, AT(prefill_share), 1, 100, "33", .metavar = "PERCENT",
                .help = "Part of the time that a user's prompts have while replies of the same "
                        "user are "
                        "generated. At 33 the mean interval between tokens of these grows to 1.5 "
                        "times "
                        "of "
                        "what it is without a prompt, at 50 it doubles. 100: prompts have whole "
                        "steps of "
                        "batch-tokens."},
        {"max-active", SETTING_COUNT, AT(max_active), 1, ENGINE_MAX_ACTIVE, "16", .metavar = "N",
                .help = "Conversations that generate at the same time; others queue."},
        {"speculation", SETTING_CHOICE, AT(speculation), .initial = "auto", .choices = auto_off,
                .metavar = "AUTO|OFF",
                .help = "Try tokens that a reply is likely to repeat, of the conversation or of a "
                        "relative, several in one step. auto: as far as replies get faster by it. "
                        "No reply changes by it. Models with recurrent states do not do it.",
                .reloadable = true},
        {"repack", SETTING_CHOICE, AT(repack), .initial = "auto", .choices = auto_off,
                .metavar = "AUTO|OFF",
                .help = "Copy weights, once at the start, into a layout that this processor "
                        "computes faster, "
                        "most of all for several conversations at once. No reply changes by it. "
                        "auto: if there is RAM "
                        "for them beside pool-size; then they are in memory once, as before, but "
                        "not shared with other "
                        "processes that use the file. off: they stay in the file's map."},
        {"default-max-tokens", SETTING_COUNT, AT(default_max_tokens), 1, 1u << 24, "512",
                .metavar = "N",
                .help = "Length limit of a reply whose request names none, in tokens."},
        {"max-conversations", SETTING_COUNT, AT(max_conversations), 1, 1u << 30, "10000",
                .metavar = "N", .help = "Conversations that one user may have."},
        {"max-user-tokens", SETTING_COUNT, AT(max_user_tokens), 1, 1ull << 60, "none",
                .zero = "none", .metavar = "N",
                .help = "Tokens that all conversations of one user may have together. Beyond it "
                        "what would add some is refused, and replies end with length. Limits of "
                        "single users, groups and tenants can be set while confabd runs."},
        {"max-user-tokens-per-day", SETTING_COUNT, AT(max_user_tokens_per_day), 1, 1ull << 60,
                "none", .zero = "none", .metavar = "N",
                .help = "Tokens of prompts and replies that are computed for one user within a "
                        "day (UTC). Beyond it replies are refused until the next day."},
        {"ram-share-per-user", SETTING_COUNT, AT(ram_share_per_user), 1, QUOTA_RAM_ALL, "none",
                .zero = "none", .metavar = "PERCENT",
                .help = "Part of the RAM for conversations that one user's may have while they "
                        "are idle. When a request ends, memory beyond it goes out of RAM, least "
                        "recently used first. No request is refused or delayed for it."},
        {"max-user-requests", SETTING_COUNT, AT(max_user_requests), 1, 65536, "64", .metavar = "N",
                .help = "Requests of one user in flight."},
        {"max-user-tenants", SETTING_COUNT, AT(max_user_tenants), 1, 1u << 30, "10000",
                .metavar = "N",
                .help = "Tenants that one user may have. Those without a conversation are "
                        "forgotten at the next start."},
        {"max-throwaways", SETTING_COUNT, AT(max_throwaways), 1, 1u << 30, "1000", .metavar = "N",
                .help = "Throw-away conversations (expires_after) that one user may have. Beyond "
                        "it those that were changed longest ago are closed."},
        {"max-queued", SETTING_COUNT, AT(max_queued), 1, 65536, "1024", .metavar = "N",
                .help = "Requests of all users in flight. The last eighth and thirty-second are "
                        "kept "
                        "as with max-connections."},
        {"spill-delay", SETTING_DURATION, AT(spill_delay), USEC / 1000, 3600 * USEC, "1s",
                .zero = "never", .metavar = "TIME",
                .help = "Write the memory of a conversation to disk when it was idle for so long; "
                        "taking it out of RAM then costs nothing. never: only when it has to go."},
        {"spill-codec", SETTING_CHOICE, AT(spill_codec), .initial = "auto", .choices = codecs,
                .metavar = "NAME",
                .help = "How memory is written to disk; what is there stays readable. auto: by "
                        "what "
                        "brings it back soonest from this disk on this processor, as far as that "
                        "was "
                        "measured; kv where space is short. kv: a sixth smaller, and has to be "
                        "decoded. "
                        "lz4: saves little. raw: as it is."},
        {"disk-limit", SETTING_SIZE, AT(disk_limit), 1ull << 20, 1ull << 60, "none", .zero = "none",
                .metavar = "BYTES",
                .help = "Space that spill files may take. Beyond it the memory of conversations "
                        "that were used least recently is forgotten, and computed again when "
                        "they are; a user with more than an equal part makes room alone."},
        {"disk-limit-per-user", SETTING_SIZE, AT(disk_limit_per_user), 1ull << 20, 1ull << 60,
                "none", .zero = "none", .metavar = "BYTES",
                .help = "Likewise, for the conversations of one user."},
        {"disk-writes-per-day", SETTING_SIZE, AT(disk_writes_per_day), 1ull << 20, 1ull << 60,
                "none", .zero = "none", .metavar = "BYTES",
                .help = "Bytes that are written to spill files within a day (UTC), so that a disk "
                        "lasts. Beyond it, what leaves RAM is computed again when it is needed."},
        {"disk-floor", SETTING_SIZE, AT(disk_floor), 0, 1ull << 60, "256M", .metavar = "BYTES",
                .help = "Space that spill files leave free on their file system."},
        {"max-isa", SETTING_CHOICE, AT(max_isa), .initial = "auto", .choices = isas,
                .metavar = "NAME",
                .help = "Greatest instruction set to use. All give the same bits; for tests."},
        {"socket-mode", SETTING_MODE, AT(socket_mode), 0, 0777, "0600", .metavar = "MODE",
                .help = "Permissions of the socket. 0666 lets every user connect; each sees only "
                        "their own conversations either way."},
        {"socket-group", SETTING_TEXT, AT(socket_group), .metavar = "GROUP",
                .help = "Group of the socket."},
        {"admin-group", SETTING_TEXT, AT(admin_group), .metavar = "GROUP",
                .help = "Group whose members, like root, may do what confab admin does: see "
                        "settings and everybody's figures; list, cancel, evict, close and purge "
                        "the conversations of all users; set limits; publish prefixes; drain the "
                        "daemon, check what is on disk, and make backups, which have what "
                        "everybody said."},
        {"trusted-users", SETTING_TEXT, AT(trusted_users), .metavar = "USERS",
                .help = "Users, by name or number, who may say for which user and for which tenant "
                        "of a user they act, as a gateway does; '-' before one that may be "
                        "missing. They reach the conversations of "
                        "those users, but have no administrator's rights. Root always may. The "
                        "user whom confabd runs as may act for tenants of its own. Their own "
                        "connections are not limited by max-user-connections.",
                .reloadable = true},
        {"max-connections", SETTING_COUNT, AT(max_connections), 1, 100000, "1024", .metavar = "N",
                .help = "Connections at the same time. The last eighth is kept for users who have "
                        "few, the last thirty-second for root and the user whom confabd runs as.",
                .reloadable = true},
        {"max-user-connections", SETTING_COUNT, AT(max_user_connections), 1, 100000, "256",
                .metavar = "N", .help = "Connections of one user.", .reloadable = true},
        {"max-connection-requests", SETTING_COUNT, AT(max_connection_requests), 1, 65536, "256",
                .metavar = "N", .help = "Requests of one connection in flight.",
                .reloadable = true},
        {"max-frame", SETTING_SIZE, AT(max_frame), 4096, 64u << 20, "4M", .metavar = "BYTES",
                .help = "Longest message that a client may send."},
        {"output-high", SETTING_SIZE, AT(output_high), 4096, 1u << 30, "1M", .metavar = "BYTES",
                .help = "Unread output of a connection at which its generations and watches are "
                        "paused.",
                .reloadable = true},
        {"output-low", SETTING_SIZE, AT(output_low), 0, 1u << 30, "256K", .metavar = "BYTES",
                .help = "Unread output of a connection at which they go on.", .reloadable = true},
        {"output-limit", SETTING_SIZE, AT(output_limit), 65536, 1u << 30, "64M", .metavar = "BYTES",
                .help = "Unread output at which a connection is closed.", .reloadable = true},
        {"io-memory", SETTING_SIZE, AT(io_memory), 1u << 20, 1ull << 40, "512M", .metavar = "BYTES",
                .help = "RAM for input and output of all connections; one that would need more "
                        "is closed. A user gets no more than is left for others then; the last "
                        "eighth and thirty-second are kept as with max-connections.",
                .reloadable = true},
        {"hello-timeout", SETTING_DURATION, AT(hello_timeout), USEC / 1000, 3600 * USEC, "10s",
                .metavar = "TIME", .help = "Time in which a new connection must say Hello.",
                .reloadable = true},
        {"frame-timeout", SETTING_DURATION, AT(frame_timeout), USEC / 1000, 3600 * USEC, "30s",
                .metavar = "TIME",
                .help = "Time in which a message of a client that has begun must be complete, and "
                        "in "
                        "which the next part of an import in the stream must come.",
                .reloadable = true},
        {"stop-timeout", SETTING_DURATION, AT(stop_timeout), USEC / 1000, 3600 * USEC, "60s",
                .metavar = "TIME",
                .help = "Time in which a stop ends running work and writes what is dirty.",
                .reloadable = true},
        {"list-page", SETTING_COUNT, AT(list_page), 1, ENGINE_MAX_LIST, "100", .metavar = "N",
                .help = "Conversations in one answer to List, unless it asks for fewer.",
                .reloadable = true},
        {"log-level", SETTING_CHOICE, AT(log_level), .initial = "info", .choices = log_levels,
                .metavar = "LEVEL", .help = "Least important messages to log.", .reloadable = true},
        {"request-log", SETTING_CHOICE, AT(request_log), .initial = "off", .choices = off_on,
                .metavar = "OFF|ON",
                .help = "Write a line (at the level info) for each request that has ended: verb, "
                        "user, conversation, result, times, tokens and bytes. Never what was said, "
                        "nor names. See confab-journal(7).",
                .reloadable = true},
};
const size_t settings_n = ARRAY_SIZE(settings_table);

const struct conf settings_conf = {
        .table = settings_table,
        .n = ARRAY_SIZE(settings_table),
        .size = sizeof(struct settings),
        .defaults_offset = offsetof(struct settings, defaults),
        .config_offset = offsetof(struct settings, config),
        .origins_offset = offsetof(struct settings, origins),
        .check = settings_check,
        .usage = "Usage: confabd --model FILE [FLAG...]\n\n"
                 "Keeps conversations with a local language model warm and serves them over a\n"
                 "Unix socket. See confabd(8) and confabd.conf(5).\n\n",
        .actions = "  --check\n          Test settings, model, folders and permissions, print what "
                   "would be\n          done, and exit. Changes nothing.\n"
                   "  --check-settings\n          Look whether the settings can be taken, and "
                   "exit.\n"
                   "  --help\n          Print this and exit.\n"
                   "  --version\n          Print the version and exit.\n",
        .takes_check = true,
};
