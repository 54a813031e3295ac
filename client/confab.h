/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * libconfab: talk to confabd, the session daemon for local language models.
 *
 * The library keeps no threads, no globals and no event loop, prints nothing and never exits. A
 * connection belongs to one thread at a time. Two ways to use it:
 *
 *   - in an event loop: poll confab_get_fd() for confab_get_events() and call confab_process() when
 *     an event occurs; answers arrive in the callback given to confab_submit();
 *   - blocking: confab_call() submits, waits and returns when the request has ended.
 *
 * A watch is a request that does not end by itself. In an event loop it is submitted like any other. A
 * program that does nothing else calls confab_call() with it, gets each notice in the callback, and ends
 * it there by confab_cancel(c, event->request, ...).
 *
 * Every submitted request ends with exactly one event whose `final` is set: its result, or
 * CONFAB_EVENT_ERROR. When the connection breaks, all requests in flight end with an error, during
 * confab_process(). Whatever the daemon sends, the worst outcome is the end of the connection.
 *
 * Functions that can fail return 0, or -1 with *e (may be NULL) filled. Outputs are untouched on
 * failure. Strings passed in are NUL-terminated UTF-8 and are copied; strings passed out belong to
 * the library and live until the callback returns. The protocol is described in confab-protocol(7).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CONFAB_PUBLIC __attribute__((visibility("default")))
#else
#define CONFAB_PUBLIC
#endif

struct confab;

/* ---- errors ---- */

/* `code` is a stable word, from the daemon (newer daemons may have new ones) or the library. */
#define CONFAB_NOT_FOUND "not_found"
#define CONFAB_EXISTS "exists"
#define CONFAB_BUSY "busy"
#define CONFAB_CONFLICT "conflict"
#define CONFAB_LIMIT "limit"
#define CONFAB_CONTEXT "context_length_exceeded"
#define CONFAB_INVALID "invalid"
#define CONFAB_STATE "state"
#define CONFAB_UNSUPPORTED "unsupported"
#define CONFAB_PERMISSION "permission"
#define CONFAB_CANCELLED "cancelled"
#define CONFAB_SHUTDOWN "shutdown"
#define CONFAB_UNAVAILABLE                                                                         \
        "unavailable"        /* the daemon cannot start, or can't reach its register's server */
#define CONFAB_MOVED "moved" /* another machine holds the conversation, and is using it */
#define CONFAB_NO_MEMORY "no_memory"
#define CONFAB_SYSTEM "system"
#define CONFAB_NO_DAEMON "no_daemon"       /* no daemon listens on the socket */
#define CONFAB_DISCONNECTED "disconnected" /* the connection ended before the answer */
#define CONFAB_PROTOCOL "protocol"         /* the daemon broke the protocol */

struct confab_error {
        char code[40];
        char message[280]; /* one sentence, without a period */
        bool retry;        /* the same request may succeed later */
        /* With CONFAB_MOVED, as far as they are known: the machine that has the conversation, and where it is reached:
         * https://HOST[:PORT] (on the loopback http://), of a gateway; unix:PATH, of its daemon, if that is on this host. Else empty. */
        char machine[72];
        char address[264];
};

/* True if e->code is @code. */
CONFAB_PUBLIC bool confab_error_is(const struct confab_error *e, const char *code);

/* ---- requests ---- */

enum confab_verb {
        CONFAB_OPEN = 1,
        CONFAB_CONTINUE,
        CONFAB_FORK,
        CONFAB_REWIND,
        CONFAB_CLOSE,
        CONFAB_GET,
        CONFAB_LIST,
        CONFAB_UPDATE,
        CONFAB_WARM,
        CONFAB_EVICT,
        CONFAB_CANCEL,
        CONFAB_TOKENIZE,
        CONFAB_MODEL_INFO,
        CONFAB_STATS,
        CONFAB_PUBLISH, /* for administrators */
        CONFAB_EXPORT,  /* see confab_export() */
        CONFAB_IMPORT,  /* see confab_import() */
        CONFAB_CARRY,   /* write the turns anew with the tokens of the daemon's model */
        /* Read the reply that is being written, or else the last one. Events as for continue. From
         * at_position on: what follows the delta with this position; stops, as of its continue. */
        CONFAB_ATTACH,
        CONFAB_WATCH, /* be told what happens to conversations, until it is cancelled */
        CONFAB_FIND, /* the conversation that begins like `messages` for longest; or how far one does */
        /* For administrators: root, the user whom the daemon runs as, and its admin group. Others get "permission". */
        CONFAB_SETTINGS,    /* what the daemon runs with, and where that was given */
        CONFAB_USERS,       /* what each user has and does */
        CONFAB_ACT_ON_USER, /* user_act, on all that a user or a tenant has */
        CONFAB_DRAIN, /* take no new work, and answer when all is on disk; or (off) take work again */
        CONFAB_BACKUP, /* all conversations of all users as a tar archive, in chunks; see confab_backup() */
        /* Limits and their use: the own ones; for administrators those of anybody, and
         * changes of them */
        CONFAB_QUOTA,
        /* For administrators: read all that is on disk and compare it with its checksums and the
         * register's rules, while everybody goes on. Progress comes before the result. */
        CONFAB_CHECK
};

/* Numbers as on the wire. */
enum confab_role {
        CONFAB_ROLE_NONE,
        CONFAB_ROLE_SYSTEM,
        CONFAB_ROLE_USER,
        CONFAB_ROLE_ASSISTANT,
        CONFAB_ROLE_RAW,
        CONFAB_ROLE_TOOL /* results of calls */
};
enum confab_residency {
        CONFAB_RESIDENCY_NONE,
        CONFAB_RESIDENT, /* all of its memory is in RAM */
        CONFAB_PARTIAL,
        CONFAB_SPILLED, /* all of it is in spill files */
        CONFAB_COLD     /* only its tokens exist */
};
enum confab_finish {
        CONFAB_FINISH_NONE,
        CONFAB_FINISH_STOP,        /* end-of-generation token */
        CONFAB_FINISH_STOP_STRING, /* see confab_done.stop */
        CONFAB_FINISH_LENGTH,      /* max_tokens */
        CONFAB_FINISH_CONTEXT,     /* the context is full */
        CONFAB_FINISH_CANCELLED
};
enum confab_input {
        CONFAB_INPUT_NONE,    /* generate from the present history */
        CONFAB_INPUT_MESSAGE, /* UTF-8, through the chat template */
        CONFAB_INPUT_RAW,     /* any bytes, without template */
        CONFAB_INPUT_TOKENS,
        CONFAB_INPUT_RESULTS, /* of calls of the last reply */
        CONFAB_INPUT_GIVEN, /* a message of the assistant from elsewhere: text, reasoning, calls */
        CONFAB_INPUT_MESSAGES /* several of any role, at most 16384; each becomes a turn */
};
/* What a reply is made of. */
enum confab_part_kind {
        CONFAB_PART_NONE,
        CONFAB_PART_TEXT,
        CONFAB_PART_REASONING,
        CONFAB_PART_CALL /* the model asks for a function */
};

/* Why the longest memory found for a prompt ends where it does. */
enum confab_differs {
        CONFAB_DIFFERS_NONE,  /* not known */
        CONFAB_DIFFERS_END,   /* everything reusable was reused */
        CONFAB_DIFFERS_NEW,   /* no conversation had computed further */
        CONFAB_DIFFERS_TOKEN, /* another conversation continues differently here */
        CONFAB_DIFFERS_LOST,  /* computed once, but no longer in RAM or on disk */
        CONFAB_DIFFERS_PARTIAL, /* not at a place where memory can begin: computed from the last one */
        CONFAB_DIFFERS_PRIVATE, /* the conversation's memory is private: not mixed with others' */
        CONFAB_DIFFERS_SHIFTED  /* this request dropped old turns: what follows is computed again */
};

/* What continue does when the memory would outgrow the context. */
enum confab_overflow {
        CONFAB_OVERFLOW_NONE,  /* open: error; update: unchanged */
        CONFAB_OVERFLOW_ERROR, /* it fails, and nothing is changed */
        CONFAB_OVERFLOW_SHIFT  /* old turns are dropped from the memory, not from the transcript */
};

/* The stable lower-case name of a number ("resident", "stop", "user"); "unknown" for one not listed
 * above. */
CONFAB_PUBLIC const char *confab_role_name(enum confab_role role);
CONFAB_PUBLIC const char *confab_residency_name(enum confab_residency residency);
CONFAB_PUBLIC const char *confab_finish_name(enum confab_finish finish);
CONFAB_PUBLIC const char *confab_differs_name(enum confab_differs differs);
CONFAB_PUBLIC const char *confab_overflow_name(enum confab_overflow overflow);
CONFAB_PUBLIC const char *confab_part_name(enum confab_part_kind kind);

/* A call of a function, in a message that is given. */
struct confab_call {
        const char *id; /* or NULL */
        const char *name;
        const char *arguments; /* a JSON object; NULL: {} */
};
/* What a call led to. */
struct confab_result {
        const char *call_id; /* of a call of the last reply */
        const char *name;    /* of the function; NULL in a request: the call's */
        const char *text;
};

/* A message of any role but CONFAB_ROLE_RAW. Fields that its role does not have are NULL or 0. */
struct confab_message {
        enum confab_role role;
        const void *text; /* not of tools */
        size_t text_size;
        const char *reasoning;           /* of the assistant: or NULL */
        const struct confab_call *calls; /* of the assistant: [n_calls] */
        size_t n_calls;
        const struct confab_result *results; /* of tools: [n_results] */
        size_t n_results;
};

struct confab_bias {
        int32_t token;
        float bias; /* added to the logit; -infinity forbids the token */
};
enum confab_sampling_field {
        CONFAB_HAS_TEMPERATURE = 1 << 0,
        CONFAB_HAS_TOP_K = 1 << 1,
        CONFAB_HAS_TOP_P = 1 << 2,
        CONFAB_HAS_MIN_P = 1 << 3,
        CONFAB_HAS_REPETITION_PENALTY = 1 << 4,
        CONFAB_HAS_PRESENCE_PENALTY = 1 << 5,
        CONFAB_HAS_FREQUENCY_PENALTY = 1 << 6,
        CONFAB_HAS_PENALTY_LAST_N = 1 << 7,
        CONFAB_HAS_SEED = 1 << 8,
};
struct confab_sampling {
        uint32_t has; /* enum confab_sampling_field: which of these are given */
        uint32_t top_k, penalty_last_n;
        float temperature, top_p, min_p;
        float repetition_penalty, presence_penalty, frequency_penalty;
        uint64_t seed;
        const struct confab_bias *biases;
        size_t n_biases;
};

enum confab_order {
        CONFAB_ORDER_NONE,   /* by id */
        CONFAB_ORDER_ID,     /* oldest id first */
        CONFAB_ORDER_UPDATED /* latest change first */
};

/* Of CONFAB_USERS. Numbers as on the wire. */
enum confab_user_order {
        CONFAB_USERS_BY_NONE,  /* by owner */
        CONFAB_USERS_BY_OWNER, /* users by number, then tenants */
        /* By a figure, the greatest first. */
        CONFAB_USERS_BY_CONVERSATIONS,
        CONFAB_USERS_BY_TOKENS,
        CONFAB_USERS_BY_RAM,
        CONFAB_USERS_BY_DISK,
        CONFAB_USERS_BY_REQUESTS,
        CONFAB_USERS_BY_CONNECTIONS,
        CONFAB_USERS_BY_PREFILLED,
        CONFAB_USERS_BY_DECODED,
        CONFAB_USERS_BY_USED /* who used it last */
};
/* Of CONFAB_ACT_ON_USER. Numbers as on the wire. */
enum confab_user_act {
        CONFAB_USER_NONE,
        CONFAB_USER_CANCEL, /* end all requests in flight */
        CONFAB_USER_EVICT, /* write the memory of all conversations to disk, and drop it from RAM */
        CONFAB_USER_PURGE  /* end all requests in flight, and delete all conversations for good */
};

/* What people and programs note about a conversation; the model never sees it. */
struct confab_about {
        /* Or NULL. For people; need not be unique. At most 512 bytes. */
        const char *title;
        const char *metadata;    /* a JSON object, at most 16 KiB */
        const char *session;     /* what a program calls it, at most 256 bytes */
        const char *const *tags; /* [n_tags], at most 32, of 64 bytes each */
        size_t n_tags;
        bool has_tags, has_expires_after;
        uint32_t expires_after; /* seconds without use until it is closed; 0: never */
};

/* Whose limits. One of has_uid and has_gid. */
struct confab_quota_subject {
        bool has_uid, has_gid;
        uint32_t uid, gid; /* of a user; in place of it, of a group, whose members have the limit */
        const char *tenant; /* with uid: of this tenant of the user; or NULL */
        bool all_tenants;   /* with uid, in place of tenant: of all tenants of the user */
};
enum confab_quota_to {
        CONFAB_QUOTA_VALUE, /* the limit is `value` */
        CONFAB_QUOTA_NONE,  /* there is no limit */
        CONFAB_QUOTA_CLEAR  /* no override: what is less special holds */
};
struct confab_quota_change {
        const char *name; /* of a limit, as its setting is called: "max-conversations" */
        enum confab_quota_to to;
        uint64_t value; /* in the limit's unit; see struct confab_quota */
};

/* Initialise with CONFAB_REQUEST_INIT, which also tells the library the size that you compiled
 * with. Each verb ignores the fields that do not name it. */
struct confab_request {
        size_t size;
        enum confab_verb verb;

        /* The conversation, for all verbs but open, list, tokenize, model_info, stats, import, watch and quota:
         * by id, or if that is 0 by name. For find optional: it looks at this one alone. */
        uint64_t conversation_id;
        const char *conversation;

        const char *name;   /* open, fork, update, import: its (new) name, or NULL */
        const char *system; /* open: system message, or NULL */
        const struct confab_sampling *sampling; /* open, update: defaults; continue; or NULL */

        /* continue; tokenize takes text, which has to be UTF-8 */
        enum confab_input input;
        enum confab_role role; /* of a message; CONFAB_ROLE_NONE: user */
        const void *text;
        size_t text_size;
        const int32_t *tokens;
        size_t n_tokens;
        bool has_max_tokens;
        uint32_t max_tokens; /* 0: only process the input */
        const char *const *stops;
        size_t n_stops;
        bool want_logprobs;
        uint32_t n_logprobs; /* alternatives per token; implies want_logprobs */
        bool detach;         /* continue even when this connection closes */
        bool ignore_eos;     /* never choose an end-of-generation token */
        bool background;

        bool has_expect_revision; /* continue, fork, rewind, carry */
        uint64_t expect_revision;
        /* Turns [0, at_turn): fork and rewind keep them, publish shares them. Continue keeps them
         * and goes on from there; the commit of the new turns drops the others, which stay if the
         * request fails. */
        bool has_at_turn;
        uint32_t at_turn;
        uint32_t drop_turns; /* rewind without at_turn and at_position: turns to drop at the end */

        bool want_turns, want_tokens; /* get */
        uint64_t after_id;            /* list: a page of conversations with greater ids */
        uint32_t limit;
        bool all_users;
        uint64_t cancel_request; /* cancel: a request of this connection, else the conversation's */
        bool special, add_bos;   /* tokenize */

        /* Fork, rewind, continue: keep tokens [0, at_position). The position is the end of a turn,
         * or inside a reply or a raw turn; not together with at_turn. */
        bool has_at_position;
        uint32_t at_position;
        bool off;            /* publish: stop sharing; drain: take work again */
        bool without_memory; /* export: transcript and tokens only */
        bool has_fd;         /* import: */
        int fd;              /* a memfd sealed against writing, growing and shrinking; duplicated */
        /* continue: if another request holds the conversation, wait for it to end (in order of
         * arrival) and check expect_revision then. If not set, the error is "busy". */
        bool wait;
        enum confab_overflow overflow; /* open, update */
        /* continue: what the reply must be; at most one of them, or NULL. The daemon's
         * docs/grammar.md has the keywords of JSON schema and the syntax of GBNF that are
         * supported. */
        const char *json_schema, *gbnf;
        /* continue: the reply is one call of a tool that holds for it, with arguments that meet the
         * function's parameters: of the function with this name, or of any ("required" in OpenAI's
         * dialect) if the name is empty; or NULL. In place of json_schema and gbnf. "unsupported": the
         * model can't be made to call, or the parameters have a keyword that docs/grammar.md lacks. */
        const char *call_of;
        /* open, continue: definitions of tools, a JSON array as in OpenAI's "tools", or NULL. Those of
         * open are told with the first message, those of continue with its input, and hold from then on;
         * the same as hold already are not told again. */
        const char *tools;
        const struct confab_result *results; /* continue, CONFAB_INPUT_RESULTS: [n_results] */
        size_t n_results;
        const char *reasoning; /* continue, CONFAB_INPUT_GIVEN, beside the text: or NULL */
        const struct confab_call *calls; /* likewise: [n_calls] */
        size_t n_calls;
        bool want_parts; /* continue: deltas have parts, and no text; get, with want_turns */
        /* continue, CONFAB_INPUT_MESSAGES, and find: [n_messages] */
        const struct confab_message *messages;
        size_t n_messages;
        /* open, fork, update: or NULL. Strings that are NULL, and the rest without has_..., change nothing;
         * an empty string removes what was noted. A fork has the first one's title, tags and metadata
         * where they are not given. */
        const struct confab_about *about;
        /* export: the bytes come in events (CONFAB_EVENT_CHUNK), and no descriptor; import: they are sent
         * by confab_send_chunk() */
        bool in_stream;
        /* get, with want_turns: a page of them, at most max_turns (0: any number), from turn from_turn on, or
         * without it the last ones before before_turn, or before the end. */
        uint32_t max_turns, from_turn, before_turn;
        bool has_from_turn, has_before_turn;
        enum confab_order order; /* list */
        /* list: in place of after_id, from the page before; or NULL. watch: from behind the notice that had
         * this cursor; NULL: from now on. (all_users is watch's, too.) */
        const char *cursor;
        const char *tag; /* list: only those with this tag; or NULL */
        /* list: only those that have all of these words, or words that begin with them, in one turn, or in
         * name, title and tags; or NULL. Latest change first; not with all_users. */
        const char *search;
        /* find, beside messages and tools (that hold from the beginning): of conversations that fit
         * equally well, those of this session; or NULL. */
        const char *session;
        /* update: whether its memory stays in RAM for longest. To pin is for administrators; others get
         * "permission". */
        bool has_pinned, pinned;
        bool reset_sampling; /* update: the defaults that `sampling` does not set are the daemon's again */
        /* act_on_user: whom, has_uid is set; users: only this user and tenants of this user. */
        bool has_uid;
        uint32_t uid;
        const char
                *tenant; /* act_on_user: this tenant; NULL: the user and all tenants of the user */
        enum confab_user_act user_act;
        bool dry_run;                      /* act_on_user: only count */
        enum confab_user_order user_order; /* users; limit and cursor as of list */
        /* drain: cancel what still runs after this time; without it, wait for it. `off`: take work again. */
        bool has_timeout;
        uint64_t timeout_usec;
        /* quota: whose limits; NULL: the own ones, which everybody may see. For other subjects, and for the fields
         * below, others than administrators get "permission". */
        const struct confab_quota_subject *quota_subject;
        /* quota: overrides to set or clear, of quota_subject, which must be given: [n_quota_changes], each limit
         * once. All are made, or none. They hold at once, and survive a restart. The result has the subject's limits after it. */
        const struct confab_quota_change *quota_changes;
        size_t n_quota_changes;
        /* quota: a page of all overrides that there are, in place of a subject's limits; `cursor` and `limit` as
         * for list */
        bool all_overrides;
        /* check: bytes that it reads in a minute, 0: no limit; without has_rate the daemon chooses. */
        bool has_rate;
        uint64_t rate;
        bool with_memory; /* backup: the memory that is on disk, too */
        /* stats: the users as well, of whom others than administrators see themselves alone. Administrators may also name
         * one (has_uid, uid, tenant), and get what that one would; others get "permission". */
        bool want_users;
};
#define CONFAB_REQUEST_INIT                                                                        \
        { .size = sizeof(struct confab_request) }

/* ---- events ---- */

enum confab_event_kind {
        CONFAB_EVENT_ERROR = 1, /* final */
        CONFAB_EVENT_ACCEPTED,  /* continue */
        CONFAB_EVENT_PROGRESS,  /* continue, check */
        CONFAB_EVENT_DELTA,     /* continue */
        CONFAB_EVENT_DONE,      /* final: continue */
        CONFAB_EVENT_EMPTY,     /* final: close, cancel; watch, when it was cancelled */
        /* final: open, fork, rewind, get, update, warm, evict, publish, import, carry */
        CONFAB_EVENT_CONVERSATION,
        CONFAB_EVENT_CONVERSATIONS, /* final: list */
        CONFAB_EVENT_TOKENS,        /* final: tokenize */
        CONFAB_EVENT_MODEL_INFO,    /* final */
        CONFAB_EVENT_STATS,         /* final */
        CONFAB_EVENT_EXPORTED,      /* final: export, backup */
        CONFAB_EVENT_NOTICE,        /* watch */
        CONFAB_EVENT_CHUNK,      /* export with in_stream: bytes of the file, one after the other */
        CONFAB_EVENT_FOUND,      /* final: find */
        CONFAB_EVENT_SETTINGS,   /* final */
        CONFAB_EVENT_USERS,      /* final */
        CONFAB_EVENT_USER_ACTED, /* final: act_on_user */
        CONFAB_EVENT_DRAINED,    /* final: drain */
        CONFAB_EVENT_QUOTAS,     /* final: quota */
        CONFAB_EVENT_CHECKED     /* final: check */
};

struct confab_bytes {
        const uint8_t *data; /* not NUL-terminated */
        size_t size;
};
struct confab_accepted {
        uint64_t conversation, revision;
        uint32_t n_prompt;   /* tokens of history and input together */
        uint32_t n_ram;      /* of these: in RAM as the conversation's own memory, */
        uint32_t n_disk;     /* read back from spill files, */
        uint32_t n_computed; /* to be computed */
        uint32_t differs_at; /* from this token of the prompt on, nothing could be reused */
        uint32_t n_shared;   /* of n_prompt: in RAM, from another conversation */
        enum confab_differs differs_why;
        uint32_t n_dropped; /* tokens of the history that this request drops from the memory */
};
struct confab_progress {
        uint32_t done, total; /* prompt tokens computed */
        /* check, which has no tokens: bytes that were looked at, of so many as it looks now */
        uint64_t done_size, total_size;
};
struct confab_logprob {
        int32_t token;
        float logprob;
        struct confab_bytes
                text; /* what it prints, at most 64 bytes; may be a part of a character */
};
struct confab_token {
        int32_t token;
        bool has_logprob;
        float logprob;
        const struct confab_logprob *top;
        size_t n_top;
        struct confab_bytes text; /* with a log-probability: as in confab_logprob */
};
/* A part of what the assistant said, or news of one: texts of the same index follow each other. */
struct confab_part {
        uint32_t index; /* of the part within the reply, from 0 */
        enum confab_part_kind kind;
        bool ends;        /* nothing more of it comes */
        const char *text; /* UTF-8; of a call: its arguments, in the end a JSON object */
        size_t text_size;
        const char *call_id, *name; /* of a call, in its first news; else NULL */
        const char *broken;         /* of a call that ends: NULL, or why it is no proper call */
};
struct confab_delta {
        const char *text; /* well-formed UTF-8, NUL-terminated */
        size_t text_size;
        const struct confab_token *tokens;
        size_t n_tokens;
        const struct confab_part *parts; /* with want_parts; then there is no text */
        size_t n_parts;
        uint32_t position; /* behind its last token, in the transcript: for attach */
};
struct confab_done {
        enum confab_finish finish;
        uint64_t revision, seed;
        uint32_t n_prompt, n_generated, n_ram, n_disk, n_computed;
        uint64_t queued_usec, restore_usec, prefill_usec, decode_usec;
        const char *stop; /* the stop string that ended the reply, or NULL */
        uint32_t n_shared, differs_at;
        enum confab_differs differs_why;
        uint32_t n_dropped;
        bool has_n_calls; /* with want_parts: */
        uint32_t n_calls; /* proper calls in the reply */
        /* Tokens that were tried ahead of the reply, and those of them that it took. */
        uint32_t n_drafted, n_accepted;
};
/* How a reply was made. */
struct confab_run {
        const char *model; /* its name */
        uint64_t seed;
        uint32_t n_prompt, n_generated, n_ram, n_disk, n_shared, n_computed; /* as in Done */
        uint64_t queued_usec, restore_usec, prefill_usec, decode_usec;
};
struct confab_turn {
        enum confab_role role;
        enum confab_finish finish; /* replies */
        uint32_t start, end;       /* token positions [start, end) */
        struct confab_bytes text; /* the content, without template; of tools: the results as JSON */
        uint64_t created_usec;    /* realtime */
        const struct confab_result *results; /* [n_results], of tools */
        size_t n_results;
        const struct confab_part *parts; /* [n_parts], of the assistant, with want_parts */
        size_t n_parts;
        const char *tools;            /* definitions that were told with it, or NULL */
        const struct confab_run *run; /* replies only, or NULL: not known */
};
/* A reply that is being written. Numbers as on the wire. */
enum confab_writing_state {
        CONFAB_WRITING_NONE,
        CONFAB_WRITING_WAITS,    /* for a place */
        CONFAB_WRITING_RESTORES, /* its memory is brought into RAM */
        CONFAB_WRITING_READS,    /* the prompt is computed */
        CONFAB_WRITING_WRITES,
        CONFAB_WRITING_ENDS /* it is being stored */
};
struct confab_writing {
        enum confab_writing_state state;
        uint64_t revision;    /* as in its accepted event */
        uint32_t done, total; /* tokens of the prompt that are computed, of those to be computed */
        uint32_t n_generated;
        struct confab_turn turn; /* so far; its text with want_turns; its end is a position */
};
struct confab_conversation {
        uint64_t id;
        const char *name;
        uint32_t uid;
        const char *tenant; /* the owner is this tenant of the uid; NULL: the uid itself */
        uint32_t fork_pos;  /* tokens shared with the parent when it was forked */
        uint64_t parent;    /* 0: none; when it is closed, its own parent */
        uint64_t revision;
        uint32_t n_tokens, n_turns;
        enum confab_residency residency;
        bool busy, generating;
        uint64_t ram_size, disk_size;
        uint64_t created_usec, updated_usec; /* realtime */
        struct confab_sampling sampling;
        const struct confab_turn *turns; /* [n_turn_list], get with want_turns */
        size_t n_turn_list;
        const int32_t *tokens; /* [n_token_list], get with want_tokens */
        size_t n_token_list;
        uint32_t n_published; /* leading tokens whose memory all users share; 0: none */
        bool private_memory;  /* imported from elsewhere: its memory is not shared */
        /* Evict: the number of tokens whose memory could not be kept in files and has to be
         * computed again, and the reason in one sentence; else 0 and "". */
        uint32_t n_not_kept;
        const char *why_not_kept;
        /* Get with turns or tokens: the stored history is damaged from turn damaged_turn on. turns
         * has the turns that can be read, tokens the tokens before damaged_turn. */
        bool damaged;
        uint32_t damaged_turn;
        enum confab_overflow overflow;
        /* Tokens [dropped_from, dropped_to) are in the transcript, but the model does not see them.
         * They count in n_tokens and in all positions. Equal: there are none. */
        uint32_t dropped_from, dropped_to;
        /* Its tokens are of another model's vocabulary: it can't go on before a carry. */
        bool other_vocabulary;
        /* Carry: it had another vocabulary, and has new tokens now. */
        bool carried;
        uint32_t n_tokens_before; /* carried: its tokens before */
        uint32_t
                n_biases_dropped; /* carried: logit biases, which named tokens of the other model */
        /* Get, list: bytes of disk_size that this model can't use, since another model made them. */
        uint64_t unusable_size;
        const char *tools; /* get with want_turns: definitions that hold at its end, or NULL */
        const struct confab_about *about;     /* what is noted, or NULL */
        const struct confab_writing *writing; /* get: the last reply is not done yet; or NULL */
        bool unanswered;                      /* its last turn is a message without a reply */
        uint32_t first_turn;                  /* get with a page of turns: the number of turns[0] */
        const char *snippet; /* list with `search`: the text around the first word; or NULL */
        bool has_hit_turn; /* of turn hit_turn, the newest that has the words; else of its name, */
        uint32_t hit_turn; /* title and tags */
        bool pinned;       /* its memory goes out of RAM last */
};
struct confab_conversations {
        const struct confab_conversation *items;
        size_t n_items;
        bool more;          /* ask again with after_id = the last one's id, or with cursor */
        const char *cursor; /* where the next page begins; NULL: there is none */
};
struct confab_tokens {
        const int32_t *tokens;
        size_t n_tokens;
        const struct confab_bytes *pieces; /* [n_pieces], n_pieces is n_tokens or 0 */
        size_t n_pieces;
};
struct confab_model_info { /* strings may be "" */
        const char *name, *architecture, *path, *chat_family, *tokenizer, *fingerprint, *isa,
                *kv_type;
        uint32_t n_vocab, n_layer, n_embd, context, context_train, block_tokens;
        uint64_t n_params, weights_size, block_size;
        bool takes_tools;           /* definitions of tools can be told */
        bool reasons;               /* replies may have reasoning that is marked */
        const char *reply_format;   /* how it writes calls; "none" */
        uint64_t state_size;        /* bytes, of its recurrent layers; 0: it has none */
        uint32_t window;            /* tokens that its local layers keep; 0: it has none */
        uint64_t window_block_size; /* bytes, what of block_size is in its local layers */
};
struct confab_stat {
        const char *name;
        uint64_t value;
};
/* How long something took: "queue", "restore", "prefill", "decode", "token", "commit", "first_token"; the daemon's
 * docs/protocol.md says what they mean. */
struct confab_histogram {
        const char *name;
        uint64_t count, sum_usec;
        const uint64_t *bounds_usec; /* [n_bounds], rising */
        size_t n_bounds;
        /* [n_bounds + 1], not cumulative: buckets[i] took at most bounds_usec[i], and longer than the bound before; the last one
         * has what took longer than all bounds. */
        const uint64_t *buckets;
};
/* The time in microseconds that a part @q (0 to 1) did not exceed: 0.5 is the median. Within a bucket times are taken as
 * evenly spread; the last bound if it is beyond that; 0 if nothing was counted. Any thread. */
CONFAB_PUBLIC double confab_histogram_quantile(const struct confab_histogram *histogram, double q);
/* Per second, over the last `seconds` (up to five more; less if counting began later). */
struct confab_rates {
        uint32_t seconds;
        float prefilled, decoded; /* tokens of prompts that were computed; of replies */
        float requests;
};
struct confab_user;
struct confab_stats {
        const struct confab_stat *stats;
        size_t n_stats;
        bool all_users; /* stats, histograms and rates are of all users, else of one; "own..." are always of one */
        const char *version;   /* of the daemon, "0.1.0"; or "" */
        uint64_t started_usec; /* realtime: when the daemon was ready */
        uint64_t uptime_usec;  /* since then */
        uint64_t time_usec;    /* realtime: of these figures */
        uint64_t since_usec;   /* realtime: when the histograms began; 0: nothing was counted */
        const struct confab_histogram *histograms; /* [n_histograms] */
        size_t n_histograms;
        const struct confab_rates *rates; /* [n_rates] */
        size_t n_rates;
        /* Who asks, or whom the request names, without used_usec; NULL from an older daemon. */
        const struct confab_user *own;
        const struct confab_rates *own_rates; /* [n_own_rates] */
        size_t n_own_rates;
        const struct confab_user *users; /* [n_users], with want_users: those with the most RAM */
        size_t n_users;
        bool more_users; /* there are others */
};

struct confab_exported {
        /* Read from its beginning; closed after the callback: dup(2) to keep it. -1 with in_stream. */
        int fd;
        uint64_t size;            /* bytes */
        uint32_t n_memory_tokens; /* tokens whose memory the file has */
};

/* Numbers as on the wire. A newer daemon may have further ones, to be ignored. */
enum confab_notice_kind {
        CONFAB_NOTICE_NONE,
        CONFAB_NOTICE_MODEL, /* which model this is: the first notice of each watch */
        /* Some notices are lost: what is known may be out of date. A list that is asked for after this
         * notice shows all that happened before it. */
        CONFAB_NOTICE_LIST_AGAIN,
        CONFAB_NOTICE_OPENED,
        CONFAB_NOTICE_FORKED,     /* from `parent` */
        CONFAB_NOTICE_TURN_BEGUN, /* input was accepted, or a reply without input has begun */
        CONFAB_NOTICE_TURN_ENDED, /* one for each turn begun */
        CONFAB_NOTICE_CHANGED,    /* name, about, sampling, overflow, publication, pin */
        CONFAB_NOTICE_REWOUND,    /* rewound or carried over */
        CONFAB_NOTICE_EVICTED,    /* its memory left the RAM */
        CONFAB_NOTICE_RESTORED,   /* its memory is in RAM again: read from disk, or by a warm */
        CONFAB_NOTICE_CLOSED,
        CONFAB_NOTICE_PRESSURE /* only to those who get all figures of stats */
};
/* The stable lower-case name of a kind ("turn_begun"); "unknown" for other numbers. */
CONFAB_PUBLIC const char *confab_notice_name(enum confab_notice_kind kind);

/* What has happened to a conversation. Numbers that do not belong to the kind are 0. */
struct confab_notice {
        enum confab_notice_kind kind;
        uint32_t uid;       /* the owner of the conversation */
        const char *cursor; /* a later watch goes on behind this notice */
        uint64_t conversation, revision;
        uint64_t parent;                 /* forked */
        enum confab_finish finish;       /* turn ended; CONFAB_FINISH_NONE: it failed */
        const char *model, *fingerprint; /* model: its name, and in hexadecimal; else NULL */
        uint64_t budget;                 /* pressure: bytes, as it should be */
        bool pressed;                    /* pressure: memory is short */
        const char *tenant;              /* of `uid`, or NULL */
};

struct confab_found {
        /* NULL: none begins with the first message. One that the request names is always given. */
        const struct confab_conversation *conversation;
        uint32_t at_turn;    /* its turns [0, at_turn) say the same as */
        uint32_t n_messages; /* messages [0, n_messages); both are places to go on from */
        bool other_session;  /* a session was named, and it belongs to another one, or to none */
};

/* ---- for administrators ---- */

/* Values are in the notation of the daemon's configuration file. */
struct confab_setting {
        const char *name;
        const char *value;   /* in force; NULL: none */
        const char *initial; /* the default; NULL: none */
        const char *origin;  /* "FILE:LINE" or "command line"; NULL: it is the default */
        const char *help;
        bool reloadable; /* a reload changes it; else a restart */
        /* What files and command line say now, where that is another value ("": none), else NULL. It takes effect
         * with a reload if it is reloadable, else with a restart. */
        const char *pending;
};
struct confab_settings {
        const struct confab_setting *settings; /* [n_settings] */
        size_t n_settings;
        const char *files_error; /* why the files as they are now can't be taken; or NULL */
        uint64_t started_usec;   /* realtime: when the daemon was ready */
};

/* What an owner has and does. requests_total and tokens_... are since the daemon started. */
struct confab_user {
        uint32_t uid;
        const char *tenant; /* or NULL: the user */
        uint64_t n_conversations;
        uint64_t n_tokens;  /* in these */
        uint64_t ram_size;  /* bytes of memory of these; what two share counts twice */
        uint64_t disk_size; /* bytes of spill files that the owner pays for */
        uint64_t n_requests, n_connections; /* now */
        uint64_t requests_total, tokens_prefilled, tokens_decoded;
        uint64_t used_usec; /* realtime: the last change of a conversation; 0: there is none */
};
struct confab_users {
        const struct confab_user *users; /* [n_users] */
        size_t n_users;
        bool more;          /* ask again with cursor */
        const char *cursor; /* or NULL */
};
struct confab_user_acted {
        uint64_t n_conversations; /* evicted, deleted */
        uint64_t n_tokens;        /* deleted */
        uint64_t n_requests;      /* that were asked to end */
        uint64_t n_busy;          /* conversations that others used, and so were not evicted */
};

struct confab_drained {
        uint64_t n_requests; /* that were cancelled when the time was over */
};

/* Something that a check has found. */
struct confab_problem {
        /* "spill": a record on disk. Of the register: "register" (its file), "conversation", "turn", "link", "record",
         * "place", "hash", "access". There may be others later. */
        const char *kind;
        uint64_t conversation, record; /* 0: none in particular, or not known */
        const char *text;              /* one sentence */
        bool is_forgotten; /* the record was damaged: its conversations compute it again */
};
struct confab_checked {
        uint64_t n_conversations, n_turns, n_tokens; /* of the register, that were looked at */
        uint64_t n_records;   /* that were read, and are as they were written */
        uint64_t n_gone;      /* that went before they were read: that is no problem */
        uint64_t n_skipped;   /* that are too large for the memory that requests share */
        uint64_t n_forgotten; /* damaged ones, and those that are of no use without them */
        uint64_t read_size;   /* bytes that were read, of the register as well */
        uint64_t n_found;     /* problems, also those that are not listed */
        const struct confab_problem *problems; /* [n_problems]: the first ones */
        size_t n_problems;
};

/* Numbers as on the wire: why a limit is what it is. */
enum confab_quota_origin {
        CONFAB_QUOTA_ORIGIN_NONE,
        CONFAB_QUOTA_ORIGIN_SETTING, /* no override */
        CONFAB_QUOTA_ORIGIN_GROUP,
        CONFAB_QUOTA_ORIGIN_USER,
        CONFAB_QUOTA_ORIGIN_TENANTS, /* an override of all tenants of the user */
        CONFAB_QUOTA_ORIGIN_TENANT
};
/* Stable lower-case names ("setting"); "unknown" for other numbers. */
CONFAB_PUBLIC const char *confab_quota_origin_name(enum confab_quota_origin origin);

/* One limit of one subject. */
struct confab_quota {
        struct confab_quota_subject subject;
        const char *name; /* as its setting is called: "max-user-tokens" */
        const char
                *unit;   /* of value and used: "conversations", "tokens", "bytes", "percent", ... */
        bool is_limited; /* else there is no limit, and value is 0 */
        uint64_t value;
        bool has_used; /* not where many have the limit (groups, all tenants), nor in lists of overrides */
        uint64_t used; /* now; may be more than value, if that was lowered */
        enum confab_quota_origin origin;
        uint32_t gid;         /* of the group, with CONFAB_QUOTA_ORIGIN_GROUP */
        uint64_t renews_usec; /* of a limit per day: when its use is 0 again, realtime; else 0 */
};
struct confab_quotas {
        const struct confab_quota *items; /* [n_items] */
        size_t n_items;
        bool more;          /* all_overrides: ask again with cursor */
        const char *cursor; /* where the next page begins; NULL: there is none */
};

struct confab_event {
        uint64_t request;
        enum confab_event_kind kind;
        bool final;
        union {
                const struct confab_error *error;
                const struct confab_accepted *accepted;
                const struct confab_progress *progress;
                const struct confab_delta *delta;
                const struct confab_done *done;
                const struct confab_conversation *conversation;
                const struct confab_conversations *conversations;
                const struct confab_tokens *tokens;
                const struct confab_model_info *model_info;
                const struct confab_stats *stats;
                const struct confab_exported *exported;
                const struct confab_notice *notice;
                const struct confab_bytes *chunk;
                const struct confab_found *found;
                const struct confab_settings *settings;
                const struct confab_users *users;
                const struct confab_user_acted *user_acted;
                const struct confab_drained *drained;
                const struct confab_quotas *quotas;
                const struct confab_checked *checked;
        };
};
/* May submit and cancel requests on the connection, but not process, wait on or free it. */
typedef void (*confab_event_fn)(void *userdata, const struct confab_event *event);

/* ---- connections ---- */

/* Connect to the daemon that listens on the Unix socket @path. confab_process() exchanges Hello;
 * requests may be submitted at once. Errors: "no_daemon", "permission", "system". */
CONFAB_PUBLIC int confab_connect(struct confab **ret, const char *path, struct confab_error *e);
/* As confab_connect(), over a connected stream socket, which the connection then owns (also on failure, when it
 * is closed). */
CONFAB_PUBLIC int confab_new_from_fd(struct confab **ret, int fd, struct confab_error *e);
#define CONFAB_OWN_UID UINT32_MAX
/* Act for @uid (CONFAB_OWN_UID: the own) and, unless @tenant is NULL, for the tenant of this label, 1 to 128 bytes:
 * all requests of the connection are theirs. Before the first confab_process() and the first request. The daemon
 * decides when it greets whether that may be (setting trusted-users); else the connection is over, with
 * "permission". Requests are held back until it has agreed. Errors: "invalid", "no_memory", "state" (too late). */
CONFAB_PUBLIC int confab_act_for(
        struct confab *c, uint32_t uid, const char *tenant, struct confab_error *e);
/* For whom the daemon takes the requests: 0, and the uid and the tenant's label (NULL: none; valid until
 * confab_free()); -1 before its Hello has come, or if an older daemon does not tell. */
CONFAB_PUBLIC int confab_get_owner(
        const struct confab *c, uint32_t *ret_uid, const char **ret_tenant);
/* Close the connection. Requests in flight get no more events; the daemon cancels those that are
 * not detached. Returns NULL; @c may be NULL. */
CONFAB_PUBLIC struct confab *confab_free(struct confab *c);

/* The socket; owned by @c. */
CONFAB_PUBLIC int confab_get_fd(const struct confab *c);
/* POLLIN, and POLLOUT while data waits to be sent; ask again after every call. */
CONFAB_PUBLIC int confab_get_events(const struct confab *c);
/* Send and receive without waiting, and call callbacks. -1 once the connection is over, with the
 * same reason every time; all requests have ended by then. */
CONFAB_PUBLIC int confab_process(struct confab *c, struct confab_error *e);
/* Hand out no events until it is called again with @held false; confab_get_events() has no POLLIN meanwhile, so that
 * the daemon waits as well, once its queue is full. What was received already is kept for the first confab_process()
 * after that: call it then without polling. May be called from within an event. */
CONFAB_PUBLIC void confab_hold(struct confab *c, bool held);
/* The number of requests that have not ended. */
CONFAB_PUBLIC size_t confab_get_n_pending(const struct confab *c);
/* The daemon's name and version ("confab 0.1.0"), or NULL before its Hello has come. */
CONFAB_PUBLIC const char *confab_get_server(const struct confab *c);
/* What the daemon calls its machine, if several share a register (docs/cluster.md), else NULL; likewise. */
CONFAB_PUBLIC const char *confab_get_machine(const struct confab *c);

/* Send @r; @fn (may be NULL) gets its events. *ret_id (may be NULL) is its id, never 0. Errors:
 * "invalid" (a string is not UTF-8, no conversation given, ...), "limit" (larger than the daemon
 * accepts), "no_memory", or the reason why the connection is over. */
CONFAB_PUBLIC int confab_submit(struct confab *c, const struct confab_request *r,
        confab_event_fn fn, void *userdata, uint64_t *ret_id, struct confab_error *e);
/* Ask the daemon to end request @id early. The request still gets its own final event, a generation
 * Done with CONFAB_FINISH_CANCELLED. */
CONFAB_PUBLIC int confab_cancel(struct confab *c, uint64_t id, struct confab_error *e);
/* Wait until the socket is ready, at most @timeout_msec (-1: forever), and process: 0; 1: timed
 * out; -1. */
CONFAB_PUBLIC int confab_wait(struct confab *c, int timeout_msec, struct confab_error *e);
/* Submit @r and process until it has ended. @fn (may be NULL) gets all of its events. If @r ends
 * with an error event, return -1 with the event's content in *e. Meanwhile other requests'
 * callbacks are called. */
CONFAB_PUBLIC int confab_call(struct confab *c, const struct confab_request *r, confab_event_fn fn,
        void *userdata, struct confab_error *e);

/* ---- export and import ---- */

/* Export the conversation that @r names (its verb is ignored) and wait for the end. *ret_fd is a
 * file owned by the caller (close-on-exec), to be read from its beginning. *ret (may be NULL) has
 * its size and the number of memory tokens. */
CONFAB_PUBLIC int confab_export(struct confab *c, const struct confab_request *r, int *ret_fd,
        struct confab_exported *ret, struct confab_error *e);
/* Import the content of @fd from its current position to its end, as @name (NULL: the daemon
 * chooses), and wait for the end. A descriptor that is not a memfd sealed against writing, growing
 * and shrinking is copied into one, wherever its data comes from. @fn (may be NULL) gets the
 * conversation. */
CONFAB_PUBLIC int confab_import(struct confab *c, int fd, const char *name, confab_event_fn fn,
        void *userdata, struct confab_error *e);

/* As confab_export(), without descriptors: the bytes of the file travel in the connection. @write gets them in order;
 * if it returns anything but 0 the export ends with "cancelled". @ret may be NULL. */
typedef int (*confab_write_fn)(void *userdata, const void *data, size_t size);
CONFAB_PUBLIC int confab_export_stream(struct confab *c, const struct confab_request *r,
        confab_write_fn write, void *userdata, struct confab_exported *ret, struct confab_error *e);
/* For administrators: write a backup of all conversations of all users, a tar archive, as
 * confab_export_stream() writes an export; @r has what is wanted of it (with_memory). @ret may be NULL. */
CONFAB_PUBLIC int confab_backup_stream(struct confab *c, const struct confab_request *r,
        confab_write_fn write, void *userdata, struct confab_exported *ret, struct confab_error *e);
/* The same, without memory. */
CONFAB_PUBLIC int confab_backup(struct confab *c, confab_write_fn write, void *userdata,
        struct confab_exported *ret, struct confab_error *e);
/* As confab_import(), without descriptors. @read gives up to @size bytes of the file: their number, 0 at the
 * end; negative: the import ends with "cancelled". */
typedef ptrdiff_t (*confab_read_fn)(void *userdata, void *data, size_t size);
CONFAB_PUBLIC int confab_import_stream(struct confab *c, confab_read_fn read, void *read_userdata,
        const char *name, confab_event_fn fn, void *userdata, struct confab_error *e);
/* Send bytes of the import that was submitted with in_stream as request @id, in an event loop; with @last
 * the file is complete. They are copied, and wait in memory until they are sent: for a large file, send more
 * when confab_get_events() has no POLLOUT. "not_found": the import has ended already. */
CONFAB_PUBLIC int confab_send_chunk(struct confab *c, uint64_t id, const void *data, size_t size,
        bool last, struct confab_error *e);

#ifdef __cplusplus
}
#endif
