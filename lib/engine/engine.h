/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The engine: conversations over one model, as the daemon sees them. Requests go in, events come
 * out, and no call blocks the caller. Behind this interface work the engine thread (model,
 * sequences, pool) and the I/O workers (spill files, register).
 *
 * 1. Every submitted request ends with exactly one final event (final == true).
 * 2. An event of kind DONE, or the result of a change, is sent only after the transaction is
 *    durable (I4).
 * 3. Requests that change the same conversation do not overlap: the second one gets ERR_BUSY, or
 *    waits (engine_request.wait).
 * 4. A conversation is named by (owner, id or name); another owner's conversation is "not found" (I6).
 *    The engine checks owners. request.admin lifts these checks for metadata (list, stats), and for
 *    CANCEL, EVICT and CLOSE by id, which are then logged (ENGINE_LOG).
 *
 * One loop thread calls all functions below, except where noted.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/about.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/figures.h"
#include "base/histogram.h"
#include "base/owner.h"
#include "base/quota.h"
#include "base/rates.h"
#include "base/sampling.h"

struct engine;

/* The number format of sequence memory; part of the fingerprint. */
enum engine_kv { ENGINE_KV_F16, ENGINE_KV_F32, ENGINE_KV_Q8_0 };

/* How spilled memory is coded, with the numbers of SPILL_CODEC_*. */
enum engine_codec_id { ENGINE_CODEC_RAW, ENGINE_CODEC_LZ4, ENGINE_CODEC_KV };
/* Why new memory is spilled by a codec. The numbers are told to clients. */
enum engine_codec_why {
        ENGINE_CODEC_SET,   /* by the option */
        ENGINE_CODEC_TIME,  /* it brings memory back soonest */
        ENGINE_CODEC_GUESS, /* so it seems: the disk was not measured yet */
        ENGINE_CODEC_TOTAL, /* disk_limit is near, */
        ENGINE_CODEC_FLOOR, /* the end of the file system's space, */
        ENGINE_CODEC_DAY    /* or the bytes that may be written in a day */
};
struct engine_codec {
        uint32_t codec;
        enum engine_codec_why why;
        /* Bytes per second, 0: not measured yet: stored bytes from the disk; raw bytes, by one thread, that
         * are decoded, copied (if they are stored raw) and encoded. */
        uint64_t disk_speed, decode_speed, copy_speed, encode_speed;
        uint64_t ratio;             /* raw bytes for 1000 by codec KV; 0: not measured yet */
        uint64_t kv_usec, raw_usec; /* that a GB (10^9 bytes) of memory is expected to take */
};

/* The step of opening that is about to begin. */
enum engine_stage {
        ENGINE_STAGE_REGISTER, /* open the register, upgrade it if need be */
        ENGINE_STAGE_MODEL,    /* load the model; weights_size and ram_size are known */
        ENGINE_STAGE_WEIGHTS,  /* hash the weights: `done` of `total` bytes are read */
        ENGINE_STAGE_CHAINS,   /* after an upgrade, for Find: `done` conversations so far */
        ENGINE_STAGE_SPILL     /* check that spill files and register agree */
};
struct engine_opening {
        enum engine_stage stage;
        uint64_t done, total;
        uint64_t weights_size; /* bytes */
        uint64_t ram_size;     /* bytes that this process may use at most */
};

/* Instruction sets, with the numbers of enum kern_isa. Larger numbers: no cap. */
enum engine_isa {
        ENGINE_ISA_GENERIC,
        ENGINE_ISA_AVX2,
        ENGINE_ISA_AVX_VNNI,
        ENGINE_ISA_AVX512,
        ENGINE_ISA_AVX512_VNNI,
        ENGINE_ISA_NEON,
        ENGINE_ISA_NEON_DOTPROD
};

/* The greatest accepted values of options and of requests; more is -ERR_INVALID. */
#define ENGINE_MAX_ACTIVE 256
#define ENGINE_MAX_BATCH 65536
#define ENGINE_MAX_LIST 256               /* conversations in one answer to LIST */
#define ENGINE_STATS_USERS 1000           /* users in one answer to STATS */
#define ENGINE_MAX_CONSTRAINT (256 << 10) /* bytes */
#define ENGINE_MAX_TOOLS (256 << 10)      /* bytes of definitions of tools */
#define ENGINE_MAX_CALLS 256              /* calls or results in one message */
#define ENGINE_MAX_MESSAGES 16384         /* in one request */

struct engine_options {
        const char *model_path;
        const char *state_dir; /* made 0700 if missing: register.db, spill/ */
        /* A register on a server that several daemons share, as libpq takes it (postgresql://...), in place of
         * register.db; NULL: none. Used only while opening. */
        const char *register_uri;
        uint64_t
                register_wait_usec; /* how long is waited for a server that does not answer; 0: 10 s */
        /* After so long without a sign of life others may take the conversations of this machine. The same on
         * all; 0: 15 s. */
        uint64_t lease_usec;
        /* Where programs on other machines reach this one's gateway, and programs on this host this daemon: for those who ask
         * elsewhere for a conversation that is in use here. NULL: nowhere. Used only while opening. */
        const char *address, *socket;
        /* Valkey or Redis, where machines that share a register find each other's memory. Strings are used only while
         * opening. */
        struct engine_remote_options {
                const char *uri;                       /* lib/remote/remote.h; NULL: none */
                const char *user, *password, *ca_file; /* NULL: none */
                uint64_t timeout_usec;                 /* how long a server may say nothing */
                uint32_t keep_sec;    /* how long memory stays there without being used */
                uint32_t write_share; /* percent of the time that memory is sent there, 1 to 100 */
                uint64_t writes_per_day; /* bytes; 0: no limit */
                bool always; /* tests: read what is there, even if computing it is faster */
        } remote;
        uint64_t pool_size; /* bytes of the ledger; 0: auto */
        uint32_t n_threads; /* 0: all CPUs this process may use */
        uint32_t context;   /* 0: the model's; more than the trained context is -ERR_INVALID */
        enum engine_kv kv_type;
        /* Tokens per step, prefill chunk included: 1 to ENGINE_MAX_BATCH. */
        uint32_t batch_tokens;
        /* Percent of the time that a user's prompts have beside replies of the same user, 1 to 100. The
         * mean interval between tokens grows to 100 / (100 - prefill_share) of what it is without; 100: as long
         * as steps are. */
        uint32_t prefill_share;
        /* Conversations generating at the same time, 1 to ENGINE_MAX_ACTIVE; the others queue. */
        uint32_t max_active;
        uint32_t default_max_tokens;
        uint32_t max_conversations_per_owner, max_requests_per_owner, max_queued;
        uint64_t max_tokens_per_owner;         /* of all transcripts; 0: no limit */
        uint64_t max_tokens_per_day_per_owner; /* computed and generated; 0: no limit */
        uint32_t ram_share_per_owner;          /* percent; 0: no limit */
        uint32_t max_tenants_per_user;
        /* Throw-away conversations of one owner: beyond it those that were changed longest ago are
         * closed. */
        uint32_t max_throwaways_per_owner;
        uint64_t disk_limit;           /* bytes of spill files; 0: no limit */
        uint64_t disk_limit_per_owner; /* of one user's conversations; 0: no limit */
        uint64_t disk_writes_per_day;  /* bytes; 0: no limit */
        uint64_t disk_floor;           /* bytes to leave free on the file system */
        /* Write the memory of a conversation to disk when it has been idle for this long;
         * UINT32_MAX: only at eviction. */
        uint32_t spill_delay_ms;
        uint32_t spill_codec; /* enum engine_codec_id; UINT32_MAX: what comes back soonest */
        uint32_t max_isa;     /* enum engine_isa, for tests; UINT32_MAX: no cap */
        /* The fingerprint that the model must have: 32 hexadecimal digits, or only the first 16,
         * which stand for the weights. NULL: any. Used only while opening. */
        const char *fingerprint;
        bool verify_model; /* read the weights even if the register remembers their hash */
        /* "auto", "none", or the name of a family: what writes messages as tokens (chat/chat.h). NULL:
         * auto. Used only while opening. */
        const char *chat_format;
        /* Compute more than one token of a reply in a step where that is faster; no reply changes by it. */
        bool speculation;
        /* Copy weights into a layout that is computed faster, where there is RAM for it. */
        bool repack;
        /* Reports the progress of opening, on the thread that opens; may be NULL. A result other
         * than 0 stops the opening with -ERR_CANCELLED. Signals are blocked meanwhile, so that it may look for
         * those that are pending. */
        int (*progress)(void *arg, const struct engine_opening *o);
        void *progress_arg;
};
#define ENGINE_OPTIONS_DEFAULT                                                                     \
        ((struct engine_options){.batch_tokens = 256,                                              \
                .prefill_share = 33,                                                               \
                .max_active = 16,                                                                  \
                .default_max_tokens = 512,                                                         \
                .max_conversations_per_owner = 10000,                                              \
                .max_throwaways_per_owner = 1000,                                                  \
                .max_tenants_per_user = 10000,                                                     \
                .max_requests_per_owner = 64,                                                      \
                .max_queued = 1024,                                                                \
                .remote = {.timeout_usec = 1000000, .keep_sec = 7 * 86400, .write_share = 25},     \
                .disk_floor = 256u << 20,                                                          \
                .spill_delay_ms = 1000,                                                            \
                .spill_codec = UINT32_MAX,                                                         \
                .speculation = true,                                                               \
                .repack = true,                                                                    \
                .max_isa = UINT32_MAX})

/* Loads the model, opens the register, sweeps the spill folder, starts the threads. -ERR_BUSY:
 * another engine is using the state folder. -ERR_STATE: the folder belongs to another user, others
 * can write into it, or it has spill files without their register. Nothing is changed then. */
int engine_open(struct engine **ret, const struct engine_options *o, struct err *e);
/* Find out what engine_open() would do with these options. Reads the model file (whole, unless the
 * register remembers its hash), and the register if no engine is using it. Changes nothing but the
 * access times of files. The result is only for engine_view() and engine_free(). */
int engine_look(struct engine **ret, const struct engine_options *o, struct err *e);
/* Begin to stop: new requests get ERR_SHUTDOWN, running generations are cancelled (their partial
 * replies are committed with finish CANCELLED), dirty memory is spilled. The event ENGINE_STOPPED
 * comes when all of this is done. */
void engine_stop(struct engine *engine);
/* Joins the threads. Called before ENGINE_STOPPED, it stops the engine as kill -9 would: nothing
 * acknowledged is lost. */
struct engine *engine_free(struct engine *engine);
DEFINE_CLEANUP(struct engine *, engine_free);

/* Change the budget while running (memory pressure, "auto"), in bytes, within one step of the
 * engine thread. Shrinking evicts idle memory at once, least recently used first, and returns its
 * pages to the system. The budget goes down along with the memory in use, so that `used <= budget`
 * holds at each moment (I3). No request fails because of shrinking: whatever fitted into the
 * largest budget that this engine ever had still fits. A request that needs more than the present
 * budget gets it while the system has memory to give, and waits otherwise; when the request ends,
 * the budget returns to the size asked for. Growing takes effect at once. Any thread. */
void engine_set_pool_size(struct engine *engine, uint64_t bytes);
/* @keep false, memory is short: give back the freed blocks that the pool keeps for reuse, and keep
 * none until a call with true. Takes effect within one step of the engine thread. Any thread. */
void engine_set_spare(struct engine *engine, bool keep);
/* Change options.speculation, from the next step on. Replies that had begun without stay without. Any
 * thread. */
/* All overrides in the register: an owned array, one block. On the loop thread, before the first request. */
int engine_overrides(
        struct engine *engine, struct quota_override **ret, size_t *ret_n, struct err *e);
void engine_set_speculation(struct engine *engine, bool on);
/* The budget now in force: while shrinking, more than was asked for. Any thread. */
uint64_t engine_pool_size(struct engine *engine);
/* The state of the pool, in bytes, at the engine thread's last step. Any thread. */
struct engine_pool_use {
        uint64_t budget, used; /* in force; reserved of it */
        uint64_t idle;         /* of `used`: blocks not in use by any request, spares among them */
        uint64_t weights;      /* of the model's weights what should stay in the page cache */
};
void engine_pool_use(struct engine *engine, struct engine_pool_use *ret);
/* The budget that "auto" gives now (budget/budget.c has the formula). Does not depend on what this
 * engine holds itself: memory of its pool and weights in the page cache do not count as lost. Reads
 * small files of /proc and /sys. */
uint64_t engine_pool_auto(struct engine *engine);
/* Tell watchers (engine_request.tell_pressure) that memory is short, or (@pressed false) no longer so,
 * and that the budget should be @budget bytes for that reason. Changes nothing. Any thread. */
void engine_note_pressure(struct engine *engine, bool pressed, uint64_t budget);

enum engine_verb {
        ENGINE_OPEN,
        ENGINE_CONTINUE,
        ENGINE_FORK,
        ENGINE_REWIND,
        ENGINE_CLOSE,
        ENGINE_GET,
        ENGINE_LIST,
        ENGINE_UPDATE,
        ENGINE_WARM,
        ENGINE_EVICT,
        ENGINE_CANCEL, /* stop whatever the conversation is doing */
        ENGINE_TOKENIZE,
        ENGINE_MODEL_INFO,
        ENGINE_STATS,
        ENGINE_PUBLISH, /* administrators: share a prefix of an own conversation with all users, or
                           stop sharing it (publish, at_turn) */
        ENGINE_EXPORT,  /* into an unnamed file: transcript, tokens, memory (docs/spill.md) */
        ENGINE_IMPORT,  /* a new conversation (name: or the file's, if that is free) */
        ENGINE_READ_FILE,  /* n_bytes of `file` from offset on */
        ENGINE_WRITE_FILE, /* the text at the end of `file` */
        ENGINE_CARRY,      /* turns written anew with this model's vocabulary (verbs/carry.c) */
        /* Read the reply that is being written, or else the last one: Accepted, Deltas, Done (at_position,
         * want_parts, expect_revision, stops). */
        ENGINE_ATTACH,
        /* The owner that tenant `tenant` of the owner's uid is; a new one is made. Not subject to
         * max_requests_per_owner and max_queued: the caller has few of them in flight. */
        ENGINE_TENANT,
        ENGINE_WATCH, /* notices of what happens to conversations, until it is cancelled */
        /* The conversation whose turns say the same as messages for longest; or how far a named one does. */
        ENGINE_FIND,
        ENGINE_USERS,       /* administrators: what each owner has and does (verbs/users.c) */
        ENGINE_ACT_ON_USER, /* administrators: cancel, evict, purge (verbs/user-act.c) */
        ENGINE_DRAIN,       /* administrators: take no new work (verbs/drain.c) */
        ENGINE_BACKUP,      /* administrators: a copy of all conversations (verbs/backup.c) */
        ENGINE_CHECK, /* administrators: register and memory on disk, beside all work (verbs/check.c) */
        /* What the owner uses of its limits, or (tenant) this tenant of its uid. Like the next two not subject to
         * max_requests_per_owner and max_queued. */
        ENGINE_USAGE,
        /* Set and clear overrides of limits in the register (subject_kind, subject_number, tenant, overrides). They
         * limit nothing here: the caller gives each request its quotas. */
        ENGINE_OVERRIDE,
        /* These quotas hold for what the owner has in RAM and on disk from now on (quotas). */
        ENGINE_LIMIT,
        ENGINE_N_VERBS
};

enum engine_input {
        ENGINE_INPUT_NONE,
        ENGINE_INPUT_MESSAGE,
        ENGINE_INPUT_RAW,
        ENGINE_INPUT_TOKENS,
        ENGINE_INPUT_RESULTS, /* of calls of the last reply */
        ENGINE_INPUT_GIVEN,   /* a message of the assistant, with reasoning or calls */
        ENGINE_INPUT_MESSAGES /* several messages, each a turn; results that follow each other are one */
};
/* Numbers as in enum chat_role. */
enum engine_role { ENGINE_SYSTEM, ENGINE_USER, ENGINE_ASSISTANT, ENGINE_RAW, ENGINE_TOOL };

/* The model asks for a function. */
struct engine_call {
        const char *id, *name, *arguments; /* a JSON object */
};
/* What a call led to. */
struct engine_result {
        const char *call_id;
        const char *name; /* NULL: the call's */
        const char *text;
};
/* A message of any role but RAW. Fields that its role does not have are NULL or 0. */
struct engine_message {
        enum engine_role role;
        const void *text; /* not of tools */
        size_t text_size;
        const char *reasoning;           /* of the assistant: or NULL */
        const struct engine_call *calls; /* of the assistant: [n_calls], at most ENGINE_MAX_CALLS */
        size_t n_calls;
        const struct engine_result *results; /* of tools: [n_results], at least one */
        size_t n_results;
};

/* A part of what the assistant said, or news of it. A view of tokens (chat/reply.h). */
enum engine_part_kind { ENGINE_PART_TEXT, ENGINE_PART_REASONING, ENGINE_PART_CALL };
struct engine_part {
        uint32_t index; /* of the part within the reply, from 0 */
        enum engine_part_kind kind;
        bool ends;        /* nothing more of it comes */
        const char *text; /* UTF-8, NUL-terminated; of a call: of its arguments. Never NULL */
        size_t text_size;
        const char *call_id, *name; /* of a call, when it begins; else NULL */
        const char *broken;         /* of a call that ends: why it is no proper call, or NULL */
};
/* What a reply must be (docs/grammar.md). */
enum engine_constraint {
        ENGINE_CONSTRAINT_NONE,
        ENGINE_CONSTRAINT_JSON_SCHEMA, /* a JSON value that meets this schema */
        ENGINE_CONSTRAINT_GBNF,        /* a text that this grammar generates */
        /* One call of a tool: of the function that the text names; without text, of any. The tools are
         * those that hold for the reply, which is one to a message. Reasoning may precede the call. */
        ENGINE_CONSTRAINT_CALL
};
/* Numbers as in the protocol. */
enum engine_finish {
        ENGINE_FINISH_NONE,
        ENGINE_FINISH_STOP,
        ENGINE_FINISH_STOP_STRING,
        ENGINE_FINISH_LENGTH,
        ENGINE_FINISH_CONTEXT,
        ENGINE_FINISH_CANCELLED
};
enum engine_residency {
        ENGINE_RESIDENCY_NONE,
        ENGINE_RESIDENT,
        ENGINE_PARTIAL,
        ENGINE_SPILLED,
        ENGINE_COLD
};

/* What a Continue does when the memory would outgrow the context. */
/* Numbers as in the protocol. */
enum engine_overflow {
        ENGINE_OVERFLOW_UNSET, /* update: unchanged; open: ERROR */
        ENGINE_OVERFLOW_ERROR, /* it fails with -ERR_CONTEXT, and nothing is changed */
        ENGINE_OVERFLOW_SHIFT  /* old turns are dropped from the memory, not from the transcript */
};

/* The reason why the longest memory found for a prompt ends where it does. */
enum engine_differs {
        ENGINE_DIFFERS_END,   /* everything reusable was reused */
        ENGINE_DIFFERS_NEW,   /* nothing further had been computed */
        ENGINE_DIFFERS_TOKEN, /* another conversation has different tokens from here on */
        ENGINE_DIFFERS_LOST,  /* computed once, but no longer in RAM nor on disk */
        ENGINE_DIFFERS_PARTIAL, /* not at a place where memory can begin: computed from the last one */
        ENGINE_DIFFERS_PRIVATE, /* this memory is not shared (imported) */
        ENGINE_DIFFERS_SHIFTED  /* this request dropped old turns from the memory */
};

/* What has happened to a conversation. Numbers as in the protocol, which says what each means. */
enum engine_notice_kind {
        ENGINE_NOTICE_MODEL = 1,
        ENGINE_NOTICE_LIST_AGAIN,
        ENGINE_NOTICE_OPENED,
        ENGINE_NOTICE_FORKED,
        ENGINE_NOTICE_TURN_BEGUN,
        ENGINE_NOTICE_TURN_ENDED,
        ENGINE_NOTICE_CHANGED,
        ENGINE_NOTICE_REWOUND,
        ENGINE_NOTICE_EVICTED,
        ENGINE_NOTICE_RESTORED,
        ENGINE_NOTICE_CLOSED,
        ENGINE_NOTICE_PRESSURE
};
/* Numbers as in the protocol. */
enum engine_order {
        ENGINE_ORDER_UNSET,  /* by id */
        ENGINE_ORDER_ID,     /* oldest id first */
        ENGINE_ORDER_UPDATED /* latest change first */
};
/* Of a conversation in a list: where the next page begins. */
struct engine_place {
        uint64_t updated_usec, id;
};

/* Numbers as in the protocol. */
enum engine_user_order {
        ENGINE_USERS_BY_UNSET, /* by owner */
        ENGINE_USERS_BY_OWNER,
        ENGINE_USERS_BY_CONVERSATIONS, /* by this figure, the greatest first; of equal ones by owner */
        ENGINE_USERS_BY_TOKENS,
        ENGINE_USERS_BY_RAM,
        ENGINE_USERS_BY_DISK,
        ENGINE_USERS_BY_REQUESTS,
        ENGINE_USERS_BY_CONNECTIONS,
        ENGINE_USERS_BY_PREFILLED,
        ENGINE_USERS_BY_DECODED,
        ENGINE_USERS_BY_USED
};
/* Numbers as in the protocol. */
enum engine_user_act {
        ENGINE_USER_UNSET,
        ENGINE_USER_CANCEL,
        ENGINE_USER_EVICT,
        ENGINE_USER_PURGE
};
/* What the caller knows of an owner. */
struct engine_known {
        uint64_t owner, n_connections, requests_total, prefilled, decoded;
};

#define ENGINE_UNSET UINT32_MAX
#define ENGINE_CURSOR_MAX 63 /* bytes of a cursor of WATCH */
#define ENGINE_MAX_STOPS 16
#define ENGINE_MAX_LOGPROBS 32768
#define ENGINE_NAME_MAX 128 /* bytes; valid UTF-8, no control characters, not only digits */

/* A file of the engine's own, for bytes of exports and imports that come in pieces. Owned by the caller,
 * who leaves it alone while a request with it is in flight. */
struct engine_file {
        int fd;        /* -1: none yet; the first WRITE_FILE makes it */
        uint64_t size; /* bytes. They count against disk_limit until engine_file_end() */
};
#define ENGINE_FILE_NULL ((struct engine_file){.fd = -1})
#define ENGINE_MAX_BYTES (1u << 20) /* of one READ_FILE or WRITE_FILE */

/* Fields that a verb does not name are ignored. engine_submit() only borrows the pointers. */
struct engine_request {
        uint64_t handle; /* chosen by the caller: not 0, unique among requests in flight */
        enum engine_verb verb;
        uint64_t owner; /* for whom; base/owner.h */
        bool admin;
        /* The limits of the owner. false: those of the options. */
        bool has_quotas;
        struct quotas quotas;
        uint64_t conv_id; /* by id, or if this is 0, by name; find: or (NULL) all of the owner's */
        const char *conv_name;
        bool has_expect_revision; /* continue, fork, rewind, carry */
        uint64_t expect_revision;

        const char *name;   /* open, fork: new name or NULL; update: new name or NULL (unchanged) */
        const char *system; /* open: system message or NULL */
        /* Open, continue: definitions of tools, a JSON array (chat/chat.h), or NULL. Open: they are
         * told with the first message. Continue: they are told with the input, unless they are those
         * that hold already, and hold from then on; not for messages of the assistant. -ERR_INVALID
         * with the place; -ERR_UNSUPPORTED: the format takes none; -ERR_STATE: it tells them with the
         * first message only. */
        const char *tools;
        struct sampling sampling;      /* open, update: defaults; continue: for this request */
        bool reset_sampling;           /* update: what is not set in it has no default any more */
        enum engine_overflow overflow; /* open, update */
        /* Update, if has_pinned: whether the conversation's memory stays in RAM for longest (memory/evict.c).
         * The caller decides who may pin. */
        bool has_pinned, pinned;
        /* Open, fork, update: what is noted, or NULL. Update changes the fields that are set. A fork has
         * the first one's title, tags and metadata where they are not set. -ERR_INVALID names the
         * field. */
        const struct about *about;

        enum engine_input input; /* continue */
        enum engine_role role;   /* of a message: user (default), system, assistant */
        const void *text;        /* message, raw; tokenize */
        size_t text_size;
        const int32_t *tokens;
        size_t n_tokens;
        /* RESULTS: [n_results], at most ENGINE_MAX_CALLS. Each answers a call of the last reply that
         * none has answered; else -ERR_INVALID, which names the calls that wait. */
        const struct engine_result *results;
        size_t n_results;
        /* GIVEN, beside the text: reasoning or NULL; [n_calls], at most ENGINE_MAX_CALLS. */
        const char *reasoning;
        const struct engine_call *calls;
        size_t n_calls;
        /* MESSAGES: [n_messages], 1 to ENGINE_MAX_MESSAGES. -ERR_INVALID names the message by its
         * number, from 1, and the field. Neighbouring messages of tools have at most
         * ENGINE_MAX_CALLS results together. The tokens and turns are those of the same messages
         * given one by one. */
        const struct engine_message *messages;
        size_t n_messages;
        /* Find: of conversations that fit equally well, those of this session; or NULL. The messages are
         * those above, `tools` holds from the beginning. */
        const char *session;
        /* Continue: deltas have parts, and no text. Get with want_turns: turns of the assistant have
         * them. */
        bool want_parts;
        uint32_t max_tokens; /* ENGINE_UNSET: default; 0: only process the input */
        const char *stops[ENGINE_MAX_STOPS];
        size_t n_stops;
        bool want_logprobs;
        uint32_t n_logprobs; /* alternatives; implies want_logprobs */
        bool ignore_eos;     /* end-of-generation tokens are never chosen */
        bool background;
        /* Continue: what the reply must be. It holds for the whole reply: if the request goes on with
         * an open one, for its beginning as well, which is checked. A constraint that is malformed,
         * unsupported or that nothing meets is refused before anything is computed: -ERR_INVALID,
         * -ERR_UNSUPPORTED, -ERR_TOO_LARGE, with the place. A call: -ERR_INVALID if no such tool holds,
         * -ERR_UNSUPPORTED if this model can't be made to call. The reply may end early (max_tokens, stop
         * strings, cancel): then it is the beginning of such a text. Not with ignore_eos. */
        enum engine_constraint constraint;
        const void *constraint_text;
        size_t constraint_size;
        /* Continue: while another request holds the conversation, wait for it to end, in order of
         * arrival; expect_revision is compared then. false: -ERR_BUSY instead. */
        bool wait;

        /* Continue: keep the part that at_turn or at_position tells, and go on from there. The
         * transaction that commits the first new turn drops the rest: the input, or without input the
         * reply. Until then the conversation is unchanged. Such a request and a Fork exclude each other (-ERR_BUSY). */
        bool cuts;
        /* Fork, rewind, publish, continue: keep turns [0, at_turn); ENGINE_UNSET: see below. */
        uint32_t at_turn;
        /* Fork, rewind, continue, if at_turn is ENGINE_UNSET: keep tokens [0, at_position). The
         * position is at a turn's end or inside an assistant's reply or a raw turn; elsewhere
         * -ERR_INVALID, which names the nearest places. A turn cut inside has the text of the kept
         * tokens (whole characters) and is open: a Continue without input goes on with it, one with
         * input ends it first. ENGINE_UNSET: not used. Note that 0 is a position. */
        uint32_t at_position;
        uint32_t drop_turns; /* rewind, if both are ENGINE_UNSET: turns to drop from the end */
        bool publish;        /* publish: all turns, or those before at_turn; false: stop */
        bool without_memory; /* export: transcript and tokens only */
        /* Import: the file made by Export, in a memfd sealed against writing, growing and shrinking
         * (F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK), so that it can neither change nor block; else
         * -ERR_INVALID. engine_submit() duplicates it; its file offset is ignored. */
        int fd;
        bool own_file; /* import: fd is that of a struct engine_file, and needs no seals */
        struct engine_file *file; /* read file, write file */
        uint64_t offset;          /* read file */
        size_t n_bytes;           /* read file: 1 to ENGINE_MAX_BYTES, all of them in the file */
        bool want_turns, want_tokens; /* get */
        /* Get with want_turns: a page of them, at most max_turns (0: any number), from turn from_turn on, or
         * (ENGINE_UNSET) the last ones; none from turn before_turn on (ENGINE_UNSET: to the end).
         * -ERR_INVALID if the conversation has not so many turns. */
        bool pages;
        uint32_t max_turns, from_turn, before_turn;
        enum engine_order order; /* list */
        bool goes_on; /* list: behind `after` of the same order; by id only its id counts */
        struct engine_place after;
        const char *tag; /* list: only those with this tag; NULL: all */
        /* List, by ENGINE_ORDER_UPDATED, not of all users: only those that have all of these words (or words
         * that begin with them) in one turn, or in name, title and tags; NULL: all. Anything is only words. */
        const char *search;
        uint32_t limit; /* list: at most ENGINE_MAX_LIST; 0: that many */
        /* Tenant: its label. Byte for byte, and like a conversation's name, but it may be a number. */
        const char *tenant;
        enum quota_kind
                subject_kind; /* override: whose limits; of a tenant, `tenant` is the label */
        uint32_t subject_number;
        struct engine_override {
                bool is, clear; /* there is a change; it removes the override */
                uint64_t value;
        } overrides[QUOTA_N];
        bool all_users; /* list, watch */
        /* Watch: from behind the notice that had this cursor; NULL: from now on. A text that is no cursor
         * of this engine, or too old, leads to LIST_AGAIN; more than ENGINE_CURSOR_MAX bytes: -ERR_INVALID. */
        const char *cursor;
        bool tell_pressure; /* watch: notices of PRESSURE, too */
        /* Users: [n_known], of whom no owner is there twice. Owners that are neither here nor have a
         * conversation are not told. Act on user: owners with connections, whose tenants stay known. */
        const struct engine_known *known;
        size_t n_known;
        enum engine_user_order user_order;
        bool after_user; /* users: only those behind the owner after_owner, whose figure is after_value */
        uint64_t after_value, after_owner;
        /* Stats: also what is measured, and what the owner has; or (one_user) the user @uid; or (tenant) the tenant of this
         * label of either. And (want_users) the users with the most RAM, at most ENGINE_STATS_USERS, of whom `known` says the
         * same as for Users. */
        bool want_meters, want_users;
        /* Act on user: of user @uid and all tenants, or (tenant) of this tenant. Users, if one_user: only these.
         * Stats: see above. */
        bool one_user;
        uint32_t uid;
        enum engine_user_act user_act;
        bool dry_run; /* act on user: only count */
        /* Drain: cancel what still runs after timeout_usec, if has_timeout; off: take work again. */
        bool off, has_timeout;
        uint64_t timeout_usec;
        bool with_memory;      /* backup: the records on disk, too */
        uint64_t rate;         /* check: bytes that it reads in a minute; 0: no limit */
        bool special, add_bos; /* tokenize */
        /* Tokenize: the longest answer, in bytes, that the receiver takes; 0: any. A longer answer
         * is refused as soon as its length is known. */
        uint64_t max_answer;
};

/* Takes copies. On failure no event follows. -ERR_LIMIT: a queue, quota or the budget is full now;
 * -ERR_TOO_LARGE: the request is beyond the budget as such; -ERR_SHUTDOWN, -ERR_INVALID. All memory
 * that the request causes is charged to the budget before it is allocated; the memory of its events
 * stays charged until they are freed. */
int engine_submit(struct engine *engine, const struct engine_request *r, struct err *e);
/* Ask request @handle to end early; its final event still comes. Unknown handles are ignored. */
void engine_cancel(struct engine *engine, uint64_t handle);
/* @pause: stop producing for request @handle, since its peer does not read; false: go on. */
void engine_pause(struct engine *engine, uint64_t handle, bool pause);

struct engine_turn {
        enum engine_role role;
        uint32_t start, end;
        enum engine_finish finish;
        uint8_t *text;
        size_t text_size;
        uint64_t created_usec;
        struct engine_result *results; /* [n_results]: of a turn of tools */
        size_t n_results;
        struct engine_part *parts; /* [n_parts]: of the assistant, if asked for */
        size_t n_parts;
        char *tools;             /* definitions that were told with it, or NULL */
        struct figures *figures; /* of a reply: how it was made, one block; or NULL */
};
/* A reply that is being written. Numbers as in the protocol. */
enum engine_writing_state {
        ENGINE_WRITING_NONE,
        ENGINE_WRITING_WAITS,    /* for a place */
        ENGINE_WRITING_RESTORES, /* its memory is brought into RAM */
        ENGINE_WRITING_READS,    /* the prompt is computed */
        ENGINE_WRITING_WRITES,
        ENGINE_WRITING_ENDS /* it is being stored */
};
struct engine_writing {
        enum engine_writing_state state;
        uint64_t revision; /* as in its Accepted */
        uint32_t done, total, n_generated;
        struct engine_turn turn; /* so far; without text unless turns are wanted */
};

struct engine_conv {
        uint64_t id;
        char *name;
        uint64_t owner;
        char *tenant; /* the label of the owner's tenant, or NULL */
        uint64_t parent;
        uint32_t fork_pos;
        uint64_t revision;
        uint32_t n_tokens, n_turns;
        enum engine_residency residency;
        uint64_t ram_size, disk_size;
        uint64_t created_usec, updated_usec;
        uint32_t n_published; /* tokens of the prefix that all users share; 0: none */
        /* The memory was imported: it is never used for other conversations. */
        bool private_memory;
        /* Evict: tokens whose memory is gone because it could not be written (0: none); the event's
         * err tells why. */
        uint32_t n_not_kept;
        bool busy;       /* a request holds it */
        bool generating; /* and this request is a Continue */
        /* Tokens [dropped_from, dropped_to) of the transcript are not in the memory: the model does not
         * see them. Equal: all are. */
        uint32_t dropped_from, dropped_to;
        enum engine_overflow overflow;
        bool pinned; /* its memory goes out of RAM last */
        struct sampling sampling;
        /* Its tokens belong to another model's vocabulary: it can't go on before a Carry. */
        bool other_vocab;
        /* Get, list: bytes of disk_size that this model can't use, since another model made them (or
         * this one, with other rules). They are of use again if that model comes back before the
         * conversation is used or carried over, or room is needed. */
        uint64_t unusable_size;
        /* Carry: it had another vocabulary, and has new tokens now. How many it had before, and the
         * number of logit biases that were dropped, because they named old ones. */
        bool carried;
        uint32_t n_tokens_before, n_biases_dropped;
        /* Get with turns or tokens: the history is damaged from turn damaged_turn on. Then `turns`
         * has all that can be read, `tokens` those of the turns before the damage. */
        bool damaged;
        uint32_t damaged_turn;
        struct engine_turn *turns; /* [n_turn_list] or NULL */
        uint32_t n_turn_list;
        bool is_page;        /* get of a page of turns: */
        uint32_t first_turn; /* the number of turns[0] */
        int32_t *tokens;     /* [n_token_list] or NULL */
        uint32_t n_token_list;
        char *tools; /* get with want_turns: definitions that hold at its end, or NULL */
        struct engine_writing *writing; /* get: the last reply is not done yet; or NULL */
        bool unanswered;                /* the last turn is a message without a reply */
        struct about *about;            /* what is noted, in one block; NULL: nothing */
        /* List with `search`: the text around the first word, one line, or NULL; of turn hit_turn, the
         * newest that has the words, or (ENGINE_UNSET) of name, title and tags. */
        char *snippet;
        uint32_t hit_turn;
};

/* What a token prints, control tokens their names: perhaps a part of a character. Cut to fit. */
struct engine_piece {
        uint8_t bytes[64];
        uint8_t size;
};
struct engine_logprob {
        int32_t token;
        float logprob;
        struct engine_piece text;
};

struct engine_model_info {
        const char *name, *arch, *path, *chat_family, *tokenizer, *isa,
                *kv_type; /* owned by the engine */
        uint32_t n_vocab, n_layer, n_embd, context, context_train, block_tokens;
        uint64_t n_params, weights_size;
        uint64_t repacked_size; /* of the weights; of engine_look(): if it were opened */
        /* Bytes of memory: of block_tokens tokens, in all layers with attention; what of it is in local
         * layers, which keep it only of the last tokens (0: none); of a state (0: none). */
        uint64_t block_size, window_block_size, state_size;
        uint32_t window; /* tokens that the local layers keep; 0: the model has none */
        uint64_t fingerprint[2];
        const char *reply_format; /* how replies write calls; "none" */
        bool takes_tools;         /* definitions of tools can be told */
        bool reasons;             /* replies may have reasoning that is marked */
};

/* Describe the model; the engine owns the strings. Any thread. */
void engine_describe_model(struct engine *engine, struct engine_model_info *ret);

/* Results of engine_look(). Sizes in bytes. */
enum engine_register {
        ENGINE_REGISTER_NONE, /* none yet: engine_open() would make one */
        ENGINE_REGISTER_BUSY, /* another engine is using it */
        ENGINE_REGISTER_OLD,  /* of another version: would be upgraded, or refused */
        ENGINE_REGISTER_READ
};
struct engine_view {
        struct engine_model_info model;
        uint64_t file_size, ram_size;
        bool remembered; /* the register knows the hash of the weights */
        /* RAM for the memory of one token, in layers that see everything; in local ones. */
        uint64_t token_size, window_token_size;
        uint64_t budget;      /* at the start */
        uint32_t most_tokens; /* longest conversation that fits both the budget and the context */
        uint32_t n_threads;
        enum engine_register register_state;
        uint64_t n_conversations;  /* READ only */
        struct engine_codec codec; /* for new memory; no limit is looked at */
        struct err
                remote; /* why the remote store can't be used; ERR_NONE: it can, or there is none */
};
/* Only of an engine that engine_look() made. */
void engine_view(struct engine *engine, struct engine_view *ret);
/* What is done otherwise than by the model's chat template, or why it can't be used. Sentence @i for a
 * person, without a full stop; NULL behind the last one. Owned by the engine; of an engine that looks. */
const char *engine_view_difference(const struct engine *engine, size_t i);

struct engine_user {
        uint64_t owner;
        char tenant[ENGINE_NAME_MAX + 1]; /* the label of the owner's tenant, or "" */
        uint64_t n_convs, n_tokens;
        uint64_t ram_size;  /* of these; what two share counts twice */
        uint64_t disk_size; /* that the owner pays for */
        uint64_t n_requests;
        uint64_t used_usec; /* realtime: of the last change of a conversation; 0: there is none */
        struct engine_known known;
};

/* What is measured. A stage is counted when it is over, also of a request that is cancelled later. */
enum engine_latency {
        ENGINE_LATENCY_QUEUE,   /* continue, warm: from the request to its place */
        ENGINE_LATENCY_RESTORE, /* from there until memory is back that was on disk, where some was */
        ENGINE_LATENCY_PREFILL, /* from there until the prompt is computed, where something was to compute */
        ENGINE_LATENCY_DECODE, /* from there to the last token, of replies that have tokens */
        /* From one token of a reply to the next. Tokens that one step has brought (speculation) share its time. Not where the
         * client did not read meanwhile. */
        ENGINE_LATENCY_TOKEN,
        /* The register's transaction for the turns of a continue, with waiting for a worker: of the input, and of the
         * reply. Not until the engine thread takes it up, which may be computing. */
        ENGINE_LATENCY_COMMIT,
        ENGINE_LATENCY_FIRST_TOKEN, /* from the request to the first token of its reply */
        ENGINE_LATENCIES
};
struct engine_meter {
        struct histogram latencies[ENGINE_LATENCIES];
        double rates[RATES_N_WINDOWS][RATE_N]; /* tokens or requests per second */
        uint64_t since_usec; /* realtime: when counting began; 0: nothing was counted */
};
/* What an owner has now. */
struct engine_holding {
        uint64_t owner; /* OWNER_ANY: a tenant was named that nobody has named before; all is 0 */
        uint32_t uid;
        char tenant[ENGINE_NAME_MAX + 1]; /* the label that was given, or "" */
        bool has_convs; /* n_convs and n_tokens are known: the register could be read */
        uint64_t n_convs, n_tokens;
        uint64_t ram_size;  /* of these; what two share counts twice */
        uint64_t disk_size; /* that the owner pays for */
        uint64_t n_requests;
};
/* Of all owners, and of one. */
struct engine_meters {
        struct engine_meter all, own;
        struct engine_holding holding; /* the one's */
};

struct engine_stat {
        const char *name; /* static */
        uint64_t value;
};

/* Something that a check has found. */
enum { ENGINE_MAX_PROBLEMS = 100, ENGINE_PROBLEM_MAX = 255 };
struct engine_problem {
        /* Static: "register", "conversation", "turn", "link", "record", "place", "hash", "access": of the register, as
         * store_check() has them; "spill": a record on disk. */
        const char *kind;
        uint64_t conv, record; /* 0: none in particular */
        bool is_forgotten;     /* the record, which is damaged: it will be computed anew */
        char text[ENGINE_PROBLEM_MAX + 1];
};
struct engine_checked {
        uint64_t n_convs, n_turns, n_tokens; /* of the register */
        uint64_t n_records;                  /* that were read and are as they were written */
        uint64_t
                n_gone; /* that went before they were read: of conversations that were closed, say */
        uint64_t n_skipped;   /* that are too large for the memory that requests may have */
        uint64_t n_forgotten; /* damaged ones, and what is of no use without them */
        uint64_t n_problems;
        uint64_t read_size;              /* bytes, of the register as well */
        struct engine_problem *problems; /* the first ones: [n_listed], owned */
        size_t n_listed;
};

enum engine_event_kind {
        ENGINE_ERROR,    /* final */
        ENGINE_ACCEPTED, /* continue */
        ENGINE_PROGRESS, /* continue, check */
        ENGINE_DELTA,
        ENGINE_DONE, /* final, continue */
        ENGINE_EMPTY, /* final: close, cancel, write file, override, limit; watch, when it was cancelled */
        /* final: open, fork, rewind, get, update, warm, evict, publish, import, carry */
        ENGINE_CONV,
        ENGINE_CONVS,        /* final: list */
        ENGINE_TOKENS,       /* final: tokenize */
        ENGINE_INFO,         /* final: model_info */
        ENGINE_STATS_RESULT, /* final */
        ENGINE_EXPORTED,     /* final: export, backup */
        ENGINE_OWNER,        /* final: tenant */
        ENGINE_NOTICE,       /* watch */
        ENGINE_BYTES,        /* final: read file */
        ENGINE_FOUND,        /* final: find */
        ENGINE_USERS_RESULT, /* final: users */
        ENGINE_USER_ACTED,   /* final: act on user */
        ENGINE_DRAINED,      /* final: drain */
        ENGINE_CHECKED,      /* final: check */
        ENGINE_USED,         /* final: usage */
        ENGINE_OVERRIDES,    /* handle 0: overrides of limits are other ones: `overrides` has all */
        ENGINE_LOG,          /* handle 0: something to put into the journal: `log` says what */
        ENGINE_STOPPED       /* handle 0 */
};

/* What there is to tell; `err` has the words. How important it is, is for the daemon to say. */
enum engine_log {
        ENGINE_LOG_MIGRATED,     /* the register was of an older version */
        ENGINE_LOG_HOUSEKEEPING, /* something of no consequence for conversations failed on the disk */
        ENGINE_LOG_REGISTER_LOST,    /* a file of the register was removed by another program */
        ENGINE_LOG_TURN_DAMAGED,     /* the register's tokens are not those that were written */
        ENGINE_LOG_REGISTER_DAMAGED, /* found by a check; nothing was changed */
        ENGINE_LOG_RECORDS_UNUSABLE, /* found when the spill files were opened */
        ENGINE_LOG_RECORD_DAMAGED,   /* found when it was read; it has been forgotten */
        ENGINE_LOG_SPILL_FAILS,      /* memory cannot be written; once until it works again */
        ENGINE_LOG_SPILL_WORKS,      /* it works again */
        ENGINE_LOG_REMOTE_FAILS,     /* the remote store can't be used; once until it can again */
        ENGINE_LOG_REMOTE_WORKS,     /* it can again */
        ENGINE_LOG_USER_DISK,        /* the owner's own limit of disk refused memory */
        ENGINE_LOG_IMPORT_COLD,      /* an import was taken without its memory */
        ENGINE_LOG_WAITS,            /* a request waits for memory of the system */
        ENGINE_LOG_ADMIN, /* an administrator (the owner) acts on another one's conversation */
        ENGINE_N_LOGS
};

struct engine_event {
        uint64_t handle;
        enum engine_event_kind kind;
        bool final;
        struct err err; /* ERROR, LOG; CONV where n_not_kept > 0 */
        bool told;      /* ERROR: a LOG has reported this error, now or before */
        /* FOUND: turns [0, at_turn) of `conv` are the first n_messages messages. Both are 0 if the request
         * names a conversation with which nothing agrees, or if there is none: conv.id is 0 then. */
        struct engine_found {
                uint32_t at_turn, n_messages;
                bool other_session; /* a session was named, and this one has another one or none */
        } found;
        union {
                /* Sent when all reusable memory is in RAM, computing begins, and the input is durable (I4):
                 * `revision` is the one with it, and from here on it stays, whatever happens. The counts are
                 * those known at that time. DONE has the final counts: if another request computes
                 * the same prompt, blocks may have been taken over from it meanwhile (n_shared
                 * more, n_computed fewer, differs_at further on). */
                struct {
                        uint64_t conv, revision;
                        /* n_prompt == n_ram (own, in RAM) + n_disk + n_shared (another
                         * conversation's, in RAM) + n_computed (to be computed) */
                        uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed;
                        uint32_t differs_at; /* token from which on nothing was reused */
                        enum engine_differs differs_why;
                        /* Overflow "shift": history tokens that this request drops from the memory.
                         * They are not in n_prompt. differs_at counts in tokens of the prompt. */
                        uint32_t n_dropped;
                } accepted;
                struct {
                        uint32_t done, total;           /* continue: tokens */
                        uint64_t done_size, total_size; /* check: bytes, as it looks now */
                } progress;
                struct {
                        char *text; /* UTF-8, NUL-terminated */
                        size_t text_size;
                        bool has_token; /* false: only text that had been held back */
                        int32_t token;
                        uint32_t position; /* behind the last token, in the transcript */
                        bool has_logprob;
                        float logprob;
                        struct engine_piece token_text; /* with logprob: of the token */
                        size_t n_top;
                        struct engine_logprob *top;
                        struct engine_part *parts; /* [n_parts], with want_parts */
                        size_t n_parts;
                } delta;
                struct {
                        enum engine_finish finish;
                        uint64_t revision, seed;
                        /* As in accepted, with their final values. */
                        uint32_t n_prompt, n_generated, n_ram, n_disk, n_shared, n_computed;
                        uint32_t differs_at;
                        enum engine_differs differs_why;
                        uint32_t n_dropped;
                        /* Tokens that steps tried ahead of the reply (speculation), and those of
                         * them that the reply took: so many steps were saved. */
                        uint32_t n_drafted, n_accepted;
                        uint32_t n_calls; /* with want_parts: proper calls in the reply */
                        bool has_n_calls;
                        uint64_t queued_usec, restore_usec, prefill_usec, decode_usec;
                        char *stop; /* or NULL */
                } done;
                struct engine_conv conv;
                struct {
                        struct engine_conv *convs;
                        size_t n;
                        bool more;               /* behind `after` */
                        enum engine_order order; /* as they stand */
                        struct engine_place after;
                } convs;
                struct {
                        int32_t *ids;
                        size_t n;
                        uint8_t *pieces;      /* concatenated */
                        uint32_t *piece_ends; /* [n] */
                } tokens;
                struct engine_model_info info;
                struct {
                        struct engine_stat *stats;
                        size_t n;
                        struct engine_meters *meters; /* with want_meters, else NULL */
                        struct engine_user *users;    /* [n_users], with want_users, else NULL */
                        size_t n_users;
                        bool more_users; /* there are others, with less in RAM */
                } stats;
                struct {
                        int fd; /* an unnamed file, read from 0; closed by engine_event_free() */
                        uint64_t size;
                        uint32_t n_memory_tokens; /* tokens whose memory is in the file */
                } exported;
                uint64_t owner; /* OWNER */
                /* USED: in the units of the limits, now; of CONNECTIONS 0, which the engine does not know. Blocks in RAM
                 * that several conversations have count in parts. */
                uint64_t used[QUOTA_N];
                /* The first one is of kind MODEL. Where some were lost, or may have been, LIST_AGAIN
                 * stands in their place. Fields that do not belong to the kind are 0. */
                struct {
                        enum engine_notice_kind kind;
                        char cursor[ENGINE_CURSOR_MAX + 1]; /* of the place behind this notice */
                        uint64_t owner;
                        char tenant[ENGINE_NAME_MAX +
                                    1]; /* the label of the owner's tenant, or "" */
                        uint64_t conv, revision, parent;
                        enum engine_finish finish; /* TURN_ENDED; NONE: it failed */
                        const char *model;         /* MODEL: its name, owned by the engine */
                        uint64_t fingerprint[2];
                        uint64_t budget; /* PRESSURE */
                        bool pressed;
                } notice;
                struct {
                        uint8_t *data;
                        size_t n;
                } bytes;
                struct {
                        struct engine_user *users;
                        size_t n;
                        bool more; /* behind the last one, whose figure is after_value */
                        uint64_t after_value;
                        enum engine_user_order order;
                } users;
                struct {
                        uint64_t owner;   /* the tenant, or the user */
                        bool all_tenants; /* and all tenants of the user */
                        bool purged;
                        uint64_t n_convs;    /* evicted, removed; of a dry run: that there are */
                        uint64_t n_tokens;   /* purge: of these */
                        uint64_t n_requests; /* that were asked to end */
                        uint64_t n_busy;     /* evict: conversations in use, which stayed */
                } acted;
                struct {
                        uint64_t n_requests; /* that were cancelled */
                } drained;
                struct engine_checked checked;
                /* ERROR, with ERR_MOVED: who has the conversation, as far as that is known; else empty. */
                struct engine_holder {
                        char name[72], address[264];
                } holder;
                struct {
                        struct quota_override *list; /* [n] */
                        size_t n;
                } overrides;
                struct {
                        enum engine_log what;
                        uint64_t owner; /* OWNER_ANY: nobody in particular */
                        uint64_t conv;  /* or 0 */
                } log;
        };
};

/* Make *file the file of @size bytes whose descriptor is @fd (of an EXPORTED event), taken over. */
void engine_file_begin(struct engine *engine, struct engine_file *file, int fd, uint64_t size);
/* *file is no longer needed: returns its descriptor, for the caller to close, or -1. (Closing the last one
 * of a large file takes time.) Also once all requests with it have ended. */
int engine_file_end(struct engine *engine, struct engine_file *file);

/* Readable while events wait. Owned by the engine. */
int engine_fd(struct engine *engine);
/* The next event, owned by the caller, or NULL. May outlive the engine. */
struct engine_event *engine_next_event(struct engine *engine);
struct engine_event *engine_event_free(struct engine_event *ev);
DEFINE_CLEANUP(struct engine_event *, engine_event_free);
/* Rises with every step of the engine thread (for a watchdog): stands still only if the thread
 * hangs while it has work. Any thread. */
uint64_t engine_heartbeat(struct engine *engine);
