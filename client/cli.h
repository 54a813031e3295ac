/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: what the verbs (cmd-*.c) share. One thread. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/util.h"
#include "client/confab.h"

/* Exit statuses; part of the interface, see docs/confab.1.in. */
enum cli_status {
        CLI_OK = 0,
        CLI_FAILED = 1,
        CLI_USAGE = 2,
        CLI_NOT_FOUND = 3,
        CLI_BUSY = 4, /* busy, conflict, exists */
        CLI_LIMIT = 5,
        CLI_NO_DAEMON = 6,
        CLI_CALLS = 7,    /* the reply asks for functions: answer with --result */
        CLI_PROBLEMS = 8, /* a check has found some */
        CLI_INTERRUPTED = 130,
        CLI_BROKEN_PIPE = 141
};

/* The code of errors in the command line, in addition to those of confab.h. */
#define CLI_CODE_USAGE "usage"

/* ---- verbs and their options ---- */

enum cli_type {
        CLI_FLAG,
        CLI_UINT,  /* min..max */
        CLI_FLOAT, /* min..max */
        CLI_STRING,
        CLI_BIAS /* ID=B */
};
struct cli_option {
        const char *name; /* without the dashes; NULL ends a table */
        /* What --help calls its argument; NULL for flags. Completion knows what NAME, FILE, PATH, TEXT,
         * COMMAND, USER and a few more are (cli-complete.c); words in small letters are taken as they are: "error|shift". */
        const char *arg;
        enum cli_type type;
        bool repeat;       /* may be given several times; else the last one counts */
        char letter;       /* the short form, as in -n; 0: there is none */
        uint64_t max_uint; /* CLI_UINT, from min on */
        double min, max;
        const char *help; /* a sentence, as in the middle of one: no capital, no full stop */
        const char *more; /* further sentences, for the manual page alone; or NULL */
};
/* Several verbs have the options of one table: what --help and the manual pages call it. */
struct cli_table {
        const struct cli_option *options;
        const char *name; /* for programs */
        const char *title;
        const char *text; /* in front of the options in manual pages; or NULL */
};
struct cli_value {
        const struct cli_option *option;
        union {
                uint64_t u;
                float f;
                const char *s; /* borrowed from argv */
                struct confab_bias bias;
        };
};

/* What a command is for: --help lists those of one purpose together, "more" at the end. */
enum cli_purpose {
        CLI_PURPOSE_MORE,
        CLI_PURPOSE_TALK,   /* what is said, and what comes back */
        CLI_PURPOSE_KEEP,   /* conversations: made, changed, closed, carried elsewhere */
        CLI_PURPOSE_LOOK,   /* what there is */
        CLI_PURPOSE_MEMORY, /* where memory is */
        CLI_PURPOSE_RUN,    /* the daemon: for those who run it */
        CLI_N_PURPOSES
};

struct cli;
#define CLI_TABLES_MAX 6
/* A command is a verb, with run(), or a group of @commands, without one: as in "confab admin users". */
struct cli_command {
        const char *name; /* one word: of "confab admin users" it is "users" */
        const char *args; /* as in its usage line; of a group NULL */
        size_t min_args, max_args;
        enum cli_purpose purpose; /* of commands in a group: not looked at */
        const char *summary;      /* one line */
        /* Paragraphs, or NULL: for --help and the manual page, which both break lines by themselves. An
         * empty line ends a paragraph; one that begins with a space is shown as it is. */
        const char *help;
        const char *examples; /* lines as they are typed, or NULL */
        const char *see;      /* related verbs, "fork rewind", or NULL: for the manual page */
        const struct cli_option *options[CLI_TABLES_MAX]; /* of a group: none */
        const struct cli_command *const *commands;        /* NULL-terminated; or NULL */
        bool binary; /* its output is neither text nor JSON, whatever the options say */
        int (*run)(struct cli *cli); /* enum cli_status; of a group NULL */
};

/* Where a command is: at[0] is one of cli_commands, each further one a command of the one before. */
#define CLI_PATH_MAX 4
struct cli_path {
        const struct cli_command *at[CLI_PATH_MAX];
        size_t n;
};

/* What is looked at while a reply comes, without waiting, before each event is shown: of chat, its terminal. */
struct cli_beside {
        int fd; /* readable when there is something to look at; -1: not at present */
        void (*look)(void *userdata); /* NULL: there is none */
        void *userdata;
};

struct markdown;
struct cli {
        const struct cli_command *command; /* the last one of @path, or NULL */
        struct cli_path path;
        const char **args; /* owned array of borrowed strings */
        size_t n_args;
        size_t first_literal;     /* args from this one on stand behind a "--" */
        struct cli_value *values; /* owned */
        size_t n_values;
        const char *socket;      /* --socket, or NULL */
        const char *tenant;      /* --tenant, or NULL */
        const char *color_asked; /* --color, or NULL */
        bool has_as_uid;         /* --as-uid: */
        uint32_t as_uid;
        bool json, json_asked, help, version; /* json: before all is parsed, what it looks like */
        bool out_tty, err_tty;
        bool quiet; /* --quiet: neither progress nor cli_note() */
        /* Whether to use colours, bold and the like on standard output: by --color, or else if it is a terminal
         * that knows them, and NO_COLOR is not set. */
        bool color;
        bool stdin_taken;  /* a text was read from standard input */
        const char *go_on; /* what to do about a cut reply: "COMMAND goes on"; NULL: say's */
        bool throwaway;    /* the conversation is closed after its reply: no advice about it */
        struct buf out;    /* standard output, not written yet */
        int out_error;     /* errno of the first failure to write it, 0 */
        bool out_told;
        struct confab *confab;     /* NULL before cli_connect() */
        struct cli_progress *asks; /* who wants the answer of a Get that is on its way, or NULL */
        bool asking;               /* it is on its way */
        struct markdown *markdown; /* what shows the texts of replies, or NULL: as they are */
        struct cli_beside beside[2];
};

extern const struct cli_command *const cli_commands[]; /* NULL-terminated */
extern const struct cli_option cli_global_options[];
extern const struct cli_option cli_text_options[];     /* of commands that send a TEXT */
extern const struct cli_option cli_sampling_options[]; /* how to choose tokens */
extern const struct cli_option cli_generate_options[]; /* when to stop, and what to report */
extern const struct cli_table cli_tables[];            /* these, with their titles; NULL ends it */

/* A row of options, and what it asks for: 0 or CLI_USAGE after reporting why. */
#define CLI_OVERFLOW_OPTION                                                                        \
        {                                                                                          \
                "overflow", "error|shift", CLI_STRING,                                             \
                        .help = "at the end of the context: fail, or drop old turns from what "    \
                                "the model sees"                                                   \
        }
int cli_overflow(struct cli *cli, struct confab_request *r);

/* Parse argv[1..]; cli->command is a verb, unless --help or --version came with a group or with
 * nothing. 0, or CLI_USAGE after reporting why. */
int cli_parse(struct cli *cli, int argc, char **argv);
/* The option of a command (NULL: of every command) with this name, of @size bytes, or this letter; or NULL. */
const struct cli_option *cli_find_option(
        const struct cli_command *c, const char *name, size_t size);
const struct cli_option *cli_find_letter(const struct cli_command *c, char letter);
/* Take @o with @arg, NULL for a flag; there is room for one value for each word of the command line. 0, or
 * CLI_USAGE after reporting why. */
int cli_give(struct cli *cli, const struct cli_option *o, const char *arg);
/* Answer a shell that asks what a word may become: argv of "__complete SHELL -- WORD...", without the
 * program's name. An exit status. */
int cli_complete(struct cli *cli, int argc, char **argv);
/* Append to @path the command that @word names there: false, there is no such one. */
bool cli_path_add(struct cli_path *path, const char *word);
/* The commands that @path's last one groups, or all of the program; NULL if that is a verb. */
const struct cli_command *const *cli_path_commands(const struct cli_path *path);
/* "admin users" in @buf; "" for the program itself. */
#define CLI_PATH_NAME_MAX 128
const char *cli_path_name(char buf[CLI_PATH_NAME_MAX], const struct cli_path *path);
/* Report that no command at @path has the name @word: CLI_USAGE. */
int cli_unknown_command(struct cli *cli, const struct cli_path *path, const char *word);
/* Parse a number of at most @max: decimal digits, nothing else. */
bool cli_parse_uint(const char *s, uint64_t max, uint64_t *ret);
/* Parse a size of at most @max bytes: digits, and perhaps K, M, G or T. */
bool cli_parse_size(const char *s, uint64_t max, uint64_t *ret);
const char *cli_purpose_title(enum cli_purpose purpose);
/* The row of cli_tables for a table of options; NULL: it is a verb's own. */
const struct cli_table *cli_find_table(const struct cli_option *options);
/* Print the help of a command; of the program, if the path is empty. */
void cli_help(struct cli *cli, const struct cli_path *path);
/* "confab say NAME [TEXT|-] [OPTIONS]" into @b. -ERR_NOMEM. */
int cli_usage_line(struct buf *b, const struct cli_path *path);
/* The last value of option @name of the command, or NULL. */
const struct cli_value *cli_get(const struct cli *cli, const char *name);
/* All values of a repeatable option, in order: *it starts at 0. */
const struct cli_value *cli_get_each(const struct cli *cli, const char *name, size_t *it);

/* ---- near misses ---- */

#define CLI_SUGGESTIONS 3
#define CLI_SUGGEST_SIZE 64
struct cli_suggest {
        const char *word; /* that was typed */
        char found[CLI_SUGGESTIONS][CLI_SUGGEST_SIZE + 1];
        size_t n;
        unsigned distance; /* of those that were found */
};
/* Keep @candidate if it is as near as those that were found, or nearer. */
void cli_suggest_try(struct cli_suggest *s, const char *candidate);
/* Append "; did you mean 'x' or 'y'?", each with @before in front, or nothing. -ERR_NOMEM. */
int cli_suggest_put(const struct cli_suggest *s, const char *before, struct buf *b);

/* ---- output ---- */

/* Append to cli->out. A failed allocation is remembered and reported by cli_flush(). */
void cli_printf(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append text from elsewhere: if the output is a terminal, control characters are made visible; in
 * a name, newlines and tabs too. */
void cli_text(struct cli *cli, const void *s, size_t n);
void cli_name(struct cli *cli, const char *name);
/* As cli_text() for any buffer: @lines keeps newlines and tabs. -ERR_NOMEM. */
int safe_append(struct buf *b, const void *s, size_t n, bool lines);
/* Write how a harmful character is shown into @out: the number of bytes, 0 if @cp may pass. @lines as above. */
size_t safe_char(uint32_t cp, bool lines, char out[16]);
/* Columns that @s takes on a terminal. */
size_t safe_width(const char *s, size_t n);
/* Write cli->out to standard output: 0, or the exit status to end with (quietly for a broken pipe).
 */
int cli_flush(struct cli *cli);
/* "confab: ..." on standard error. */
void cli_complain(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for what is no error, and which --quiet leaves out. */
void cli_note(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether TERM names a terminal that can erase a line and knows colours: not "dumb". */
bool cli_terminal_erases(void);
/* Report @e on standard error (and as a JSON object on standard output with --json), return its
 * exit status. */
int cli_fail(struct cli *cli, const struct confab_error *e);
/* The same for this program's own errors: returns @status; @code is as in struct confab_error. */
int cli_error(struct cli *cli, int status, const char *code, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/* The same for wrong usage, with a hint where to read about it: returns CLI_USAGE. */
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_status_of(const struct confab_error *e);
/* "1.2M", "12s", ... in @buf. */
const char *human_size(char buf[16], uint64_t n);
/* "0.85ms", "2.4s", "12m". */
const char *human_time(char buf[16], double usec);
const char *human_count(char buf[32], uint64_t n); /* "12,345" */
/* What makes a plural of a noun that @n stands in front of: "%u turn%s". */
static inline const char *plural_s(uint64_t n) {
        return n == 1 ? "" : "s";
}
const char *human_age(char buf[16], uint64_t since_usec, uint64_t now_usec);

/* JSON into cli->out: begin with json_init(&j, &cli->out), end with cli_json_end(); see client/event-json.h. */
void cli_json_end(struct cli *cli, struct json *j);

/* ---- talking to the daemon ---- */

/* The socket: --socket, CONFAB_SOCKET, the system's, the user's. NULL when there is no memory. */
char *cli_socket_path(const struct cli *cli);
/* Make a connection as the options say: 0, or -1 with *e filled. */
int cli_make_connection(const struct cli *cli, struct confab **ret, struct confab_error *e);
/* Connect unless connected: 0 or an exit status after reporting why. */
int cli_connect(struct cli *cli);
/* A daemon that stops refuses what comes meanwhile. Who takes its place (after an upgrade, or a restart; the socket stays
 * open) is asked once more: true if @e is such a refusal, and there is a connection to somebody else now. */
bool cli_move_on(struct cli *cli, const struct confab_error *e);
/* Connect, call, report: 0 or an exit status. */
int cli_call(struct cli *cli, const struct confab_request *r, confab_event_fn fn, void *userdata);
/* As confab_call(), with progress on a terminal, and again where cli_move_on() says so; cli_connect() was called. 0, or -1 with *e filled. */
int cli_try_call(struct cli *cli, const struct confab_request *r, confab_event_fn fn,
        void *userdata, struct confab_error *e);
/* Get a page of at most *@page turns of the conversation that @r names, from where its from_turn or before_turn says. If
 * they are too large for one answer, *@page is halved and they are asked for again; @fn then sees an error first.
 * The first returns 0, or -1 with *e filled, and takes a connection that is there; the second is as cli_call(). */
int cli_try_page(struct cli *cli, struct confab_request *r, uint32_t *page, confab_event_fn fn,
        void *userdata, struct confab_error *e);
int cli_call_page(struct cli *cli, struct confab_request *r, uint32_t *page, confab_event_fn fn,
        void *userdata);
/* If @e says that no conversation has the name that @r gives, and a person reads it: ask for the list,
 * and add the names that are like it. Scripts neither wait for that nor read it. */
void cli_add_near_names(struct cli *cli, const struct confab_request *r, struct confab_error *e);
/* Whether every other request on this connection would fail, too. */
bool cli_ends_all(const struct confab_error *e);
/* Parse NAME as users type it, "#12" or "12" is an id, anything else a name: 0; -ERR_INVALID, it is empty;
 * -ERR_NOT_FOUND, there is no such number. */
int cli_parse_ref(const char *name, struct confab_request *r);
/* The same: 0 or CLI_USAGE after reporting why. */
int cli_ref(struct cli *cli, const char *name, struct confab_request *r);
/* All conversations, page by page, oldest id first; a nonzero result of @fn ends the list and is
 * returned. */
int cli_list_each(struct cli *cli, bool all_users,
        int (*fn)(void *userdata, const struct confab_conversation *c), void *userdata);
/* The same of those that @what asks for: its all_users, tag and search (then latest change first). */
int cli_list(struct cli *cli, const struct confab_request *what,
        int (*fn)(void *userdata, const struct confab_conversation *c), void *userdata);
/* Read the text that a command sends: argument @i or the file that it names, standard input, or both
 * (cli-text.c has the rules). The command has cli_text_options. *ret is NUL-terminated, may have other NULs, and is to
 * be freed. 0 or a status after reporting why. */
enum cli_text {
        CLI_TEXT_MESSAGE, /* not only white space; without the last newline of standard input */
        CLI_TEXT_RAW,     /* unchanged, not empty */
        CLI_TEXT_ANY      /* unchanged */
};
int cli_read_text(struct cli *cli, size_t i, enum cli_text kind, char **ret, size_t *ret_size);
/* Read the text of option @name by the same rules: unless it is given, nothing changes. *ret, to be freed,
 * holds *text. @use_of_stdin: what standard input is for, so that "-" can't be the text; or NULL. */
int cli_option_text(
        struct cli *cli, const char *name, const char *use_of_stdin, char **ret, const char **text);
/* Print a conversation, the answer to @r, as a JSON object on one line. */
void cli_put_conversation(
        struct cli *cli, const struct confab_request *r, const struct confab_conversation *c);
/* Call a verb whose result is a conversation, and show it as JSON or with @print. */
int cli_call_conversation(struct cli *cli, const struct confab_request *r,
        void (*print)(struct cli *cli, const struct confab_conversation *c));
/* The same for a verb with an empty result: {} with --json. */
int cli_call_empty(struct cli *cli, const struct confab_request *r);
/* "name: spilled, 0 in RAM, 2.1M on disk" */
void cli_print_residency(struct cli *cli, const struct confab_conversation *c);

/* ---- progress ---- */

/* A line on a terminal's standard error while a request takes long; cli-progress.c has the rules. */
struct cli_progress {
        struct cli *cli;
        const struct confab_request *request; /* or NULL: it is no request that takes long */
        bool on, shown, counts;               /* bytes are counted */
        const char *what; /* what happens, unless the daemon says something else */
        uint64_t began_usec, accepted_usec, draw_usec, ask_usec;
        uint32_t done, total;            /* tokens of the prompt */
        uint64_t bytes, all, bytes_usec; /* of a file; 0: nobody knows how many; since when */
};
void cli_progress_init(
        struct cli_progress *p, struct cli *cli, const struct confab_request *r, const char *what);
/* Milliseconds after which cli_progress_tick() wants to be called; -1: never. */
int cli_progress_timeout(const struct cli_progress *p);
void cli_progress_tick(struct cli_progress *p);
void cli_progress_event(struct cli_progress *p, const struct confab_event *event);
/* So many bytes of @all (0: nobody knows) have gone by. */
void cli_progress_bytes(struct cli_progress *p, uint64_t n, uint64_t all);
/* Before anything else goes to the terminal; and for good. */
void cli_progress_erase(struct cli_progress *p);
void cli_progress_end(struct cli_progress *p);
/* --verbose: one line about how a reply was made. */
void cli_tell_done(struct cli *cli, const struct confab_done *d);
/* The same of several replies together. */
struct cli_total {
        uint64_t n_replies, n_prompt, n_ram, n_disk, n_shared, n_computed, n_generated;
};
void cli_total_add(struct cli_total *t, const struct confab_done *d);
/* @usec: from the first question to the end. */
void cli_tell_total(struct cli *cli, const struct cli_total *t, uint64_t usec);

/* The bytes from the present place of a file to its end; 0: it is no file. */
uint64_t cli_file_rest(int fd);
/* Copy @from to its end to @to, with progress: @doing is what happens ("writing"), @total the number of bytes or 0, @what
 * what errors call it ("the export"). 0, CLI_BROKEN_PIPE, or a status after reporting why. */
int cli_copy(
        struct cli *cli, int from, int to, uint64_t total, const char *doing, const char *what);

/* ---- turns ---- */

/* Make @r, a Continue, replace turn number @turn (a user's) and all later turns; or, with
 * CLI_LAST_MESSAGE, the user's last message and what follows it. Then run it. A change of the
 * conversation by someone else in the meantime is a conflict, or with r->wait a reason to start
 * over. The replaced turns are dropped only by the commit of the new ones. 0 or a status, after
 * reporting why. */
#define CLI_LAST_MESSAGE SIZE_MAX
int cli_edit(struct cli *cli, const char *name, size_t turn, struct confab_request *r);
/* The text of the user's last message, to be freed; NULL: there is none. 0 or a status after reporting why. */
int cli_last_message(struct cli *cli, const char *name, char **ret);
/* The same for the last reply: @r, without input, generates another one. */
int cli_regenerate(struct cli *cli, const char *name, struct confab_request *r);

/* ---- parts of replies, results of calls ---- */

enum cli_reasoning { CLI_REASONING_SHOW, CLI_REASONING_HIDE, CLI_REASONING_ONLY };
/* The value of --reasoning. 0 or CLI_USAGE. */
int cli_reasoning(struct cli *cli, enum cli_reasoning *ret);
/* Prints the parts of a reply as they come (cli-parts.c has the rules). */
struct cli_parts {
        struct cli *cli;
        enum cli_reasoning reasoning;
        enum confab_part_kind last; /* what was printed last */
        bool line_open, err_open;   /* a line is not ended: on standard output, standard error */
        unsigned n_calls;           /* proper calls */
        struct buf head, arguments; /* of the call that comes */
};
void cli_parts_print(struct cli_parts *p, const struct confab_part *parts, size_t n);
/* End open lines, free memory. */
void cli_parts_end(struct cli_parts *p);
/* All parts of a turn, to standard output. */
void cli_print_parts(struct cli *cli, const struct confab_part *parts, size_t n);

#define CLI_TOOLS_OPTION                                                                           \
        {                                                                                          \
                "tools", "FILE", CLI_STRING,                                                       \
                        .help = "functions that the model may call: JSON, as in OpenAI's "         \
                                "\"tools\"",                                                       \
                        .more = "At most 256 KiB. 'confab open' tells them with the first "        \
                                "message, 'confab say' with this one, unless "                     \
                                "they hold already. A model whose template knows no tools "        \
                                "refuses them; 'confab model' tells."                              \
        }
/* Read the file of --tools into *ret, to be freed, and let @r have it. 0 or a status. */
int cli_tools(struct cli *cli, char **ret, struct confab_request *r);

/* The values of --result and --results. */
struct cli_result {
        char *call_id, *name, *text;
};
struct cli_results {
        struct cli_result *own; /* [n] */
        size_t n;
        struct confab_result *results;
};
int cli_results_init(struct cli_results *x, struct cli *cli, struct confab_request *r);
void cli_results_deinit(struct cli_results *x);

/* ---- generating ---- */

/* Fill @r from the sampling and generate options; @o holds the memory that @r refers to, freed by
 * generate_options_deinit(). 0 or a status. */
struct generate_options {
        struct confab_sampling sampling;
        struct confab_bias *biases;
        const char **stops;
        size_t n_stops;
        char *constraint; /* the text of --json-schema or --grammar */
        enum cli_reasoning reasoning;
};
int generate_options_init(struct generate_options *o, struct cli *cli, struct confab_request *r);
void generate_options_deinit(struct generate_options *o);
/* Run a Continue: text, or JSON lines, go to standard output as they come. The first SIGINT cancels
 * and waits for the end, the second exits. @detach: return once it is accepted. An exit status. */
int cli_generate(struct cli *cli, const struct confab_request *r, bool detach);
/* The same, but a conflict with @r's expect_revision sets *conflict and is not reported. */
int cli_generate_or_conflict(
        struct cli *cli, const struct confab_request *r, bool detach, bool *conflict);
