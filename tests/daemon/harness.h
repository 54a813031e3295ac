/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The real confabd in its own folder, and a blocking client with one call per verb.
 *
 *     struct harness h;
 *     struct client *c;
 *     struct reply r;
 *     uint64_t id;
 *
 *     if (harness_init(&h) != 0)
 *             return 77;                           no model: already reported
 *     harness_start(&h, (const char *[]){"--pool-size=4M", NULL});
 *     c = harness_client(&h);
 *     assert_int_equal(client_open(c, "a", NULL, &id), 0);
 *     assert_int_equal(client_say(c,
 *                     &(struct say){.conv = id, .raw = "Hello", .max_tokens = 8}, &r), 0);
 *     reply_deinit(&r);
 *     client_free(c);
 *     harness_stop(&h);
 *     harness_deinit(&h);
 *
 * 1. The harness waits for readiness, status and end by events (NOTIFY_SOCKET, waitpid), not time.
 * 2. Steps that must succeed in every test (starting, a clean exit, no sanitizer report) fail the
 *    cmocka test by themselves. Calls that a test may expect to fail (every client_*) return 0, or
 *    -1 with c->error set.
 * 3. The folder survives harness_stop() or harness_kill(), so the next harness_start() is a
 *    restart.
 */
#include "wire.h"
#include <sys/types.h>

struct harness {
        char dir[64], socket[96], state[96], log[96];
        char model[512];
        pid_t pid;     /* 0: not running */
        int pid_fd;    /* readable when it has ended */
        int notify_fd; /* receives the daemon's READY=1 */
        int listen_fd; /* passed to the daemon (socket activation), or -1; owned by the test */
        /* The file that the daemon watches for memory pressure; "": none, so that a test does not
         * depend on the machine's load; "-": whatever the daemon finds. */
        char pressure[96];
};

/* The model that tests run on: CONFAB_TEST_MODEL, else the bundled one; NULL if it is missing. */
const char *harness_model(void);
/* The daemon's program: CONFABD, else the one of this build. */
const char *harness_program(void);

/* Make a folder. 0, or 1 with a message on standard error if there is no model: skip then. */
int harness_init(struct harness *h);
/* @flags end with NULL, may be NULL; they come after --model, --socket and --state, and later flags
 * win. Returns when the daemon is ready. */
void harness_start(struct harness *h, const char *const *flags);
/* As harness_start(), without waiting for anything. */
void harness_spawn(struct harness *h, const char *const *flags);
/* As harness_start(), for a daemon that must fail to start; returns its exit status. */
int harness_start_failing(struct harness *h, const char *const *flags);
/* SIGTERM; must end with status 0. */
void harness_stop(struct harness *h);
/* SIGKILL, at whatever it is doing. */
void harness_kill(struct harness *h);
/* Send a signal; wait for the end with harness_wait(): its exit status, or 128 + signal. */
void harness_signal(struct harness *h, int sig);
int harness_wait(struct harness *h);
/* Wait until the daemon has told its service manager something that has @part in it. */
void harness_wait_notify(struct harness *h, const char *part);
/* All that the daemon has logged (owned, to be freed). */
char *harness_read_log(struct harness *h);
/* Kill the daemon if it runs. If it had ended by itself, report that with its log. */
void harness_end(struct harness *h);
/* The same, and removes the folder. */
void harness_deinit(struct harness *h);

/* ---- a client ---- */

struct client_error {
        char code[32], message[256];
        bool retry;
};

struct client {
        struct wire w;
        struct client_error error; /* of the last call that returned -1 */
};

/* A client that has connected and exchanged Hello. A failure fails the test. */
struct client *harness_client(struct harness *h);
/* The same for any path, and NULL if it fails. */
struct client *client_connect(const char *path);
struct client *client_free(struct client *c);
/* Acting for *act_uid (NULL: not said) and @tenant (NULL: none). 0; -1 with *ret_error when the daemon refuses
 * and has closed the connection. */
int client_act(struct client **ret, const char *path, const uint32_t *act_uid, const char *tenant,
        struct client_error *ret_error);

struct conv {
        uint64_t id, parent, revision, ram_bytes, disk_bytes;
        char name[160], tenant[160];
        uint32_t uid, fork_pos, n_tokens, n_turns;
        int residency; /* Confab__V1__Residency */
        bool busy, generating, private_memory, pinned;
        uint32_t n_published, n_not_kept;
        int overflow; /* Confab__V1__Overflow */
        uint32_t dropped_from, dropped_to;
        bool other_vocabulary, carried;
        uint64_t unusable_bytes;
        uint32_t n_tokens_before, n_biases_dropped;
        int32_t *tokens; /* [n_token_list], with client_get(): owned */
        size_t n_token_list;
        char **texts; /* [n_turn_list], NUL-terminated: owned */
        int *roles, *finishes;
        size_t n_turn_list;
};
void conv_deinit(struct conv *v);

/* What to say. Zero means unset, but for max_tokens: 0 is 16, and NO_TOKENS none. */
#define NO_TOKENS UINT32_MAX
struct say {
        uint64_t conv;
        const char *name;    /* if conv is 0 */
        const char *message; /* one of these; none: generate from the present history */
        const char *raw;
        const int32_t *tokens;
        size_t n_tokens;
        uint32_t max_tokens;
        float temperature; /* 0: greedy, sent explicitly */
        uint64_t seed;     /* 0: unset */
        uint32_t logprobs; /* alternatives per token; log-probabilities always come */
        const char *stop;
        const char *json_schema, *gbnf; /* with one of them, ignore_eos is not set */
        uint64_t expect_revision;       /* 0: none */
        bool keep_eos;                  /* else ignore_eos is set, so that lengths are known */
        bool detach, background;
        /* Continue from there, dropping everything after it. */
        bool from_turn, from_position;
        uint32_t at; /* that turn or position */
};

struct reply {
        struct buf text;    /* NUL-terminated */
        int32_t *tokens;    /* [n] */
        uint32_t *logprobs; /* [n], the bits of the floats */
        struct buf top;     /* token and bits of every alternative, in order: for memcmp */
        struct buf pieces;  /* the texts of tokens */
        size_t n;
        uint32_t position; /* of the last delta */
        bool accepted, done;
        struct {
                uint64_t revision;
                uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed, differs_at;
                int differs_why; /* Confab__V1__Differs */
                uint32_t n_dropped;
        } acc;
        unsigned n_progress;
        int finish; /* Confab__V1__FinishReason */
        uint64_t revision, seed;
        uint32_t n_prompt, n_generated, n_ram, n_disk, n_shared, n_computed, differs_at;
        uint32_t n_drafted, n_accepted;
        int differs_why;
};
void reply_deinit(struct reply *r);
/* Same tokens, bits of log-probabilities and alternatives. */
bool reply_equal(const struct reply *a, const struct reply *b);

/* The whole Continue. On -1 @ret holds the events before the error, and must also be freed. */
int client_say(struct client *c, const struct say *s, struct reply *ret);
/* In parts: send it; take one event into @ret: 1 more is to come, 0 done, -1 error. */
/* Attach, from behind @position (0: all of it); to be read with client_say_next(). */
uint64_t client_attach_begin(struct client *c, uint64_t conv, uint32_t position);
/* Tokens that @seed decides, with log-probabilities, and a reply of @max_tokens. */
int client_say_drawn(struct client *c, uint64_t conv, unsigned seed, size_t n, uint32_t max_tokens,
        struct reply *ret);
uint64_t client_say_begin(struct client *c, const struct say *s);
int client_say_next(struct client *c, uint64_t request, struct reply *ret);

int client_open(struct client *c, const char *name, const char *system, uint64_t *ret_id);
/* @at_turn -1: all turns. @ret may be NULL. */
int client_fork(struct client *c, uint64_t id, const char *name, int at_turn, struct conv *ret);
int client_rewind(struct client *c, uint64_t id, uint32_t drop_turns, struct conv *ret);
/* @overflow: Confab__V1__Overflow. */
int client_set_overflow(struct client *c, uint64_t id, int overflow, struct conv *ret);
int client_pin(struct client *c, uint64_t id, bool pinned, struct conv *ret);
/* Keep turns [0, turn), or tokens [0, position); @expect_revision 0: any. */
int client_rewind_to_turn(
        struct client *c, uint64_t id, uint32_t turn, uint64_t expect_revision, struct conv *ret);
int client_rewind_to_position(struct client *c, uint64_t id, uint32_t position, struct conv *ret);
int client_fork_at_position(
        struct client *c, uint64_t id, const char *name, uint32_t position, struct conv *ret);
/* @turns -1: all; @off: no longer. */
int client_publish(struct client *c, uint64_t id, int turns, bool off, struct conv *ret);
/* *ret_fd is the caller's. */
int client_export(struct client *c, uint64_t id, bool without_memory, int *ret_fd,
        uint64_t *ret_size, uint32_t *ret_n_memory_tokens);
/* A memfd with all seals and these bytes. */
int client_memfd(const void *data, size_t n);
/* Passes @fd (-1: none). */
int client_import(struct client *c, int fd, const char *name, struct conv *ret);
/* @expect_revision 0: any. */
int client_carry(struct client *c, uint64_t id, uint64_t expect_revision, struct conv *ret);
int client_close(struct client *c, uint64_t id);
int client_get(struct client *c, uint64_t id, bool turns, bool tokens, struct conv *ret);
int client_get_name(struct client *c, const char *name, struct conv *ret);
/* Up to @max of them into @out, @after_id first. */
int client_list(struct client *c, uint64_t after_id, bool all_users, struct conv *out, size_t max,
        size_t *ret_n);
int client_rename(struct client *c, uint64_t id, const char *name);
int client_warm(struct client *c, uint64_t id, struct conv *ret);
int client_evict(struct client *c, uint64_t id, struct conv *ret);
int client_cancel(struct client *c, uint64_t request, uint64_t conv);
int client_tokenize(struct client *c, const char *text, int32_t **ret, size_t *ret_n);
/* The model's fingerprint (hex). */
int client_fingerprint(struct client *c, char ret[64]);

struct stats {
        struct {
                char name[64];
                uint64_t value;
        } * items;
        size_t n;
};
int client_stats(struct client *c, struct stats *ret);
/* The figure, failing the test if there is none of that name. */
uint64_t stats_get(const struct stats *s, const char *name);
void stats_deinit(struct stats *s);
/* One figure now. */
uint64_t client_stat(struct client *c, const char *name);
