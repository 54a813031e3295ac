/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "client/gateway/config.h"
#include "client/gateway/follow.h"
#include <syslog.h>

static const struct setting_choice yes_no[] = {{"yes", 1}, {"no", 0}, {NULL, 0}};
static const struct setting_choice off_on[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct setting_choice follow_modes[] = {
        {"auto", FOLLOW_AUTO}, {"yes", FOLLOW_YES}, {"no", FOLLOW_NO}, {NULL, 0}};
static const struct setting_choice log_levels[] = {{"error", LOG_ERR}, {"warning", LOG_WARNING},
        {"notice", LOG_NOTICE}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}, {NULL, 0}};

#define USEC 1000000ull
#define HOUR (3600 * USEC)
#define AT(field) .offset = offsetof(struct gateway_config, field)

static const struct setting table[] = {
        {"daemon", SETTING_LIST, AT(daemons), .initial = "/run/confab/confab.sock",
                .metavar = "PATH",
                .help = "Socket of a confabd to answer with; several, each with another model, may "
                        "be "
                        "given. The first answers requests that name no model."},
        {"listen", SETTING_TEXT, AT(listen), .initial = "/run/confab/gateway.sock",
                .metavar = "PATH",
                .help = "Unix socket to listen on; its folder is made if missing. Not used when "
                        "the "
                        "service manager passes sockets. Who connects is who asks: the kernel says "
                        "it."},
        {"socket-mode", SETTING_MODE, AT(socket_mode), 0, 0777, "0600", .metavar = "MODE",
                .help = "Permissions of the socket."},
        {"socket-group", SETTING_TEXT, AT(socket_group), .metavar = "GROUP",
                .help = "Group of the socket."},
        {"tcp", SETTING_LIST, AT(tcp), .metavar = "ADDRESS:PORT",
                .help = "Listen on TCP as well, like 127.0.0.1:8080 or [::1]:8080; several may be "
                        "given. It takes a token-file, and another address than one of the "
                        "loopback "
                        "takes allow-remote."},
        {"token-file", SETTING_TEXT, AT(token_file), .metavar = "FILE",
                .help = "Who may come by TCP: lines TOKEN USER [TENANT]. The file must belong to "
                        "root "
                        "or to the user of the gateway, and nobody else may read it. Its content "
                        "is "
                        "read again on reload."},
        {"allow-remote", SETTING_CHOICE, AT(allow_remote), .initial = "no", .choices = yes_no,
                .metavar = "YES|NO",
                .help = "Let tcp have addresses that other machines reach. Tokens and "
                        "conversations "
                        "then go over the network as they are: put a server in front that speaks "
                        "TLS."},
        {"allow-host", SETTING_LIST, AT(allow_hosts), .metavar = "NAME",
                .help = "Names of this machine that clients may use in the field Host, beside "
                        "localhost, 127.0.0.1 and [::1], and on a Unix socket beside addresses and "
                        "names without a dot.",
                .reloadable = true},
        {"allow-origin", SETTING_LIST, AT(allow_origins), .metavar = "ORIGIN",
                .help = "Origins like https://chat.example whose pages may send requests from a "
                        "browser; * lets all pages. Without it only pages that come from the "
                        "gateway "
                        "may.",
                .reloadable = true},
        {"tenant-header", SETTING_TEXT, AT(tenant_header), .metavar = "NAME",
                .help = "Field, in lower case, by which a program in front says for whom of its "
                        "users "
                        "it asks, like x-openwebui-user-id: each value is a tenant of its own. "
                        "Only "
                        "for programs that set it themselves. A token with a tenant takes no "
                        "other."},
        {"follow", SETTING_CHOICE, AT(follow), .initial = "auto", .choices = follow_modes,
                .metavar = "AUTO|YES|NO",
                .help = "Where several machines share their conversations: send a request for one "
                        "that another machine is using to the gateway there, if the daemon tells "
                        "its address, or to a daemon on this host. Bodies of requests are kept in "
                        "memory for that until the answer begins; auto: only where a daemon says "
                        "that it shares its conversations.",
                .reloadable = true},
        {"follow-ca-file", SETTING_TEXT, AT(follow_ca_file), .metavar = "FILE",
                .help = "Certificates of those who sign for the other gateways, in place of those "
                        "whom the system trusts."},
        {"page", SETTING_TEXT, AT(page), .metavar = "FOLDER",
                .help = "Files of the page that browsers get at /, if not those that were "
                        "installed "
                        "with the gateway; none: there is no page."},
        {"page-libs", SETTING_TEXT, AT(page_libs), .initial = "/usr/share", .metavar = "FOLDER",
                .help = "Where the page finds markdown-it, DOMPurify, highlight.js and KaTeX, in "
                        "the "
                        "places that Debian's packages have for them. It shows plain text without "
                        "them."},
        {"expire", SETTING_DURATION, AT(expire), 60 * USEC, 87600 * HOUR, "720h", .zero = "never",
                .metavar = "TIME",
                .help = "Conversations that clients did not name are closed when they were not "
                        "used "
                        "for so long.",
                .reloadable = true},
        {"expire-once", SETTING_DURATION, AT(expire_once), 60 * USEC, 87600 * HOUR, "24h",
                .zero = "expire", .metavar = "TIME",
                .help = "The same for conversations that nobody went on with: requests for titles "
                        "and the like come once. Never longer than expire.",
                .reloadable = true},
        {"shift", SETTING_CHOICE, AT(shift), .initial = "no", .choices = yes_no,
                .metavar = "YES|NO",
                .help = "Let conversations go on when the context is full, without their oldest "
                        "turns. no: the client is told context_length_exceeded.",
                .reloadable = true},
        {"max-choices", SETTING_COUNT, AT(max_choices), 1, 128, "8", .metavar = "N",
                .help = "Replies to one request (n).", .reloadable = true},
        {"max-reply", SETTING_COUNT, AT(max_reply), 1, 1u << 24, "context", .zero = "context",
                .metavar = "TOKENS",
                .help = "Longest reply to a request that sets no limit. context: until the context "
                        "is full. While it is written, memory for so many tokens is kept for it.",
                .reloadable = true},
        {"keep-alive", SETTING_DURATION, AT(keep_alive), USEC / 1000, HOUR, "15s", .zero = "never",
                .metavar = "TIME",
                .help = "A stream of events says that it lives when it had nothing to say for so "
                        "long.",
                .reloadable = true},
        {"max-connections", SETTING_COUNT, AT(max_connections), 1, 100000, "16384", .metavar = "N",
                .help = "Connections of clients at the same time. No user can take all of them."},
        {"max-header", SETTING_SIZE, AT(max_header), 1024, 1u << 20, "64K", .metavar = "BYTES",
                .help = "Longest head of a request."},
        {"max-body", SETTING_SIZE, AT(max_body), 1024, 1u << 30, "32M", .metavar = "BYTES",
                .help = "Longest body of a request. One whose values take more than 64 MiB and "
                        "four "
                        "times its length is refused, too."},
        {"max-bodies", SETTING_SIZE, AT(max_bodies), 1u << 20, 1ull << 36, "256M",
                .metavar = "BYTES",
                .help = "Bodies of all requests together, shared likewise. A request beyond it is "
                        "asked to "
                        "come again (503)."},
        {"max-import", SETTING_SIZE, AT(max_import), 1024, 1ull << 50, "64G", .metavar = "BYTES",
                .help = "Longest file that may be imported. Its bytes go on to the daemon as they "
                        "come.",
                .reloadable = true},
        {"output-high", SETTING_SIZE, AT(output_high), 4096, 1u << 30, "256K", .metavar = "BYTES",
                .help = "Unread output of a client at which its reply is paused."},
        {"output-low", SETTING_SIZE, AT(output_low), 0, 1u << 30, "64K", .metavar = "BYTES",
                .help = "Unread output of a client at which its reply goes on."},
        {"header-timeout", SETTING_DURATION, AT(header_timeout), USEC / 1000, HOUR, "30s",
                .metavar = "TIME",
                .help = "Time in which the head of a request that has begun must be complete."},
        {"body-timeout", SETTING_DURATION, AT(body_timeout), USEC / 1000, HOUR, "60s",
                .metavar = "TIME", .help = "Time in which the next part of a body must come."},
        {"idle-timeout", SETTING_DURATION, AT(idle_timeout), USEC / 1000, 24 * HOUR, "5min",
                .metavar = "TIME", .help = "A connection without a request is closed after it."},
        {"write-timeout", SETTING_DURATION, AT(write_timeout), USEC / 1000, 24 * HOUR, "10min",
                .metavar = "TIME",
                .help = "A client that reads nothing of its answer for so long is disconnected."},
        {"stop-timeout", SETTING_DURATION, AT(stop_timeout), USEC / 1000, HOUR, "30s",
                .metavar = "TIME",
                .help = "Time that answers have to end when the gateway is told to stop.",
                .reloadable = true},
        {"log-level", SETTING_CHOICE, AT(log_level), .initial = "info", .choices = log_levels,
                .metavar = "LEVEL",
                .help = "Least important messages to log. What is said in conversations is never "
                        "logged.",
                .reloadable = true},
        {"request-log", SETTING_CHOICE, AT(request_log), .initial = "off", .choices = off_on,
                .metavar = "OFF|ON",
                .help = "Write a line (at the level info) for each request that has ended: method, "
                        "route, status, user, times and bytes. Never what was said, nor tokens, "
                        "nor "
                        "names. See confab-journal(7).",
                .reloadable = true},
        {"open", SETTING_FLAG, AT(open), .flag_only = true,
                .help = "Show the page to the user who runs this: print its address with a new "
                        "token, and "
                        "start the browser of the desktop. tcp is then 127.0.0.1 with any port, "
                        "daemon "
                        "the socket where confab(1) looks, and there is no Unix socket, unless "
                        "they are "
                        "given."},
        {"config", SETTING_TEXT, AT(config), .metavar = "FILE", .flag_only = true,
                .help = "Read settings from this file first, then from the files FILE.d/*.conf by "
                        "their names."},
        {"defaults", SETTING_TEXT, AT(defaults), .metavar = "FILE", .flag_only = true,
                .help = "Read settings from this file and from FILE.d/*.conf before those of "
                        "--config, "
                        "which may then be missing."},
};

const struct conf gateway_conf = {
        .table = table,
        .n = ARRAY_SIZE(table),
        .size = sizeof(struct gateway_config),
        .defaults_offset = offsetof(struct gateway_config, defaults),
        .config_offset = offsetof(struct gateway_config, config),
        .given_offset = offsetof(struct gateway_config, given),
        .check = gateway_config_check,
        .usage = "Usage: confab-gateway [FLAG...]\n\n"
                 "Lets programs that speak HTTP to OpenAI, Ollama or Anthropic talk to confabd. "
                 "See\n"
                 "confab-gateway(8).\n\n",
        .actions =
                "  --check-settings\n          Look whether the settings can be taken, and exit.\n"
                "  --help\n          Print this and exit.\n"
                "  --version\n          Print the version and exit.\n",
};

void gateway_config_deinit(struct gateway_config *config) {
        conf_deinit(&gateway_conf, config);
}
