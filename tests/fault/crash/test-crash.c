/* SPDX-License-Identifier: MIT */
/*
 * The process stops, or a call fails, at every place where the engine changes a file, one after
 * another: while it opens, says, forks, evicts, restores, rewinds, edits, drops old turns from a
 * memory, writes behind, publishes, exports, imports, changes the model and carries over, closes and
 * stops. Then an engine is opened again on the same folder, and:
 *
 * I4. Each conversation is either as it was after the last acknowledged operation, or as it is
 *     after the operation that was in progress. So an imported conversation has all of its tokens
 *     or does not exist, and a published prefix never ends after the last turn. What the memory
 *     leaves out is part of what a conversation is.
 * I1. Each conversation can be continued, with the bits of one that was never stopped. One with
 *     another vocabulary cannot, but can be carried over.
 * I5. A stop alone damages no block: no block fails its checks. (After a power loss some may; they
 *     are detected and computed again.)
 * Once all conversations are closed, nothing is left in spill files or in the register.
 *
 * The program runs itself: one process for each point, see crash-io.h.
 *
 * Usage: test-crash [architecture [points per kind of stop]]        (0: every one)
 *
 * With an architecture, a small model of it (util/tiny-model.h) runs a script of its own: one whose memory has
 * states or windows, with checkpoints that are written, thinned out, dropped and come back to.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "crash-io.h"
#include "unit/engine/rig.h"
#include "util/depth.h"
#include "util/test.h"
#include "util/tiny-model.h"

enum { N_CONVS = 8, IMPORTED = 6, MAX_HISTORY = 1024, N_MORE = 5 };

static const char SYSTEM[] = "You are a helpful assistant who remembers what people tell.";
static const char LONG[] = "My name is Ada. I have a dog that is called Rex, two cats, and a green "
                           "house near the river. My sister Eva lives in Rome, and we plan to "
                           "travel to Oslo in June. Please remember all of that.";
static const char SHORT[] = "What is the name of my dog?";
static const int32_t MORE[N_MORE] = {301, 302, 304, 311, 319};

enum act {
        OPEN,
        OPEN_SHIFT, /* it drops old turns at the end of the context */
        SAY,
        EDIT, /* say from turn `at` on; without text: another reply */
        FORK,
        FORK_AT,
        REWIND,
        EVICT,
        WARM,
        PUBLISH,
        UNPUBLISH,
        PIN,
        UNPIN,
        EXPORT,
        IMPORT, /* the last export */
        CLOSE,
        RESTART,
        KILL,
        IDLE,
        OTHER, /* a restart with the model whose vocabulary has another word; with the first one */
        BACK,
        CARRY
};

struct step {
        enum act act;
        int conv, to; /* ids, which rise from 1 */
        const char *text;
        uint32_t at;
};

static const struct step all_steps[] = {
        {OPEN, 1, 0, SYSTEM, 0},
        {SAY, 1, 0, LONG, 0},
        {IDLE, 0, 0, NULL, 0},
        {FORK, 1, 2, NULL, 0},
        {SAY, 2, 0, SHORT, 0},
        {EVICT, 1, 0, NULL, 0},
        {EVICT, 2, 0, NULL, 0},
        {SAY, 1, 0, SHORT, 0},
        {EDIT, 1, 0, LONG, 3},
        {RESTART, 0, 0, NULL, 0},
        {WARM, 2, 0, NULL, 0},
        {SAY, 2, 0, LONG, 0},
        {IDLE, 0, 0, NULL, 0},
        {PUBLISH, 2, 0, NULL, 0},
        {EDIT, 2, 0, NULL, 6},
        {REWIND, 2, 0, NULL, 3},
        {EVICT, 2, 0, NULL, 0},
        {PIN, 1, 0, NULL, 0},
        {FORK_AT, 1, 3, NULL, 3}, /* not pinned */
        {SAY, 3, 0, LONG, 0},
        {KILL, 0, 0, NULL, 0},
        {SAY, 3, 0, SHORT, 0},
        {UNPIN, 1, 0, NULL, 0},
        {PIN, 3, 0, NULL, 0},
        {EVICT, 3, 0, NULL, 0},
        {EDIT, 3, 0, SHORT, 1},
        {SAY, 3, 0, LONG, 0},
        {IDLE, 0, 0, NULL, 0},
        {CLOSE, 1, 0, NULL, 0},
        {OPEN, 4, 0, SYSTEM, 0},
        {SAY, 4, 0, LONG, 0},
        {REWIND, 3, 0, NULL, 1},
        {SAY, 3, 0, SHORT, 0},
        {EXPORT, 4, 0, NULL, 0},
        {IMPORT, 0, 5, NULL, 0},
        {PUBLISH, 3, 0, NULL, 0},
        {SAY, 5, 0, SHORT, 0},
        {EVICT, 4, 0, NULL, 0},
        {EVICT, 5, 0, NULL, 0},
        {EXPORT, 5, 0, NULL, 0},
        {CLOSE, 4, 0, NULL, 0},
        {KILL, 0, 0, NULL, 0},
        {CLOSE, 5, 0, NULL, 0}, /* or its memory would be shared */
        {IMPORT, 0, IMPORTED, NULL, 0},
        {UNPUBLISH, 3, 0, NULL, 0},
        {SAY, IMPORTED, 0, SHORT, 0},
        {EVICT, IMPORTED, 0, NULL, 0},
        {RESTART, 0, 0, NULL, 0},
        {OPEN_SHIFT, 7, 0, SYSTEM, 0},
        {SAY, 7, 0, LONG, 0},
        {SAY, 7, 0, LONG, 0},
        {SAY, 7, 0, LONG, 0},
        {IDLE, 0, 0, NULL, 0},
        {SAY, 7, 0, LONG, 0}, /* drops */
        {EVICT, 7, 0, NULL, 0},
        {SAY, 7, 0, SHORT, 0},
        {FORK_AT, 7, 8, NULL, 5}, /* inside of what was dropped */
        {SAY, 8, 0, SHORT, 0},
        {KILL, 0, 0, NULL, 0},
        {SAY, 7, 0, LONG, 0},
        {IDLE, 0, 0, NULL, 0},
        {SAY, 7, 0, LONG, 0}, /* drops more */
        {EDIT, 7, 0, SHORT, 5},
        {IDLE, 0, 0, NULL, 0},
        {CLOSE, 8, 0, NULL, 0},
        {RESTART, 0, 0, NULL, 0},
        {SAY, 3, 0, LONG, 0},
        {OTHER, 0, 0, NULL, 0},
        {CARRY, 3, 0, NULL, 0},
        {SAY, 3, 0, SHORT, 0},
        {CARRY, 7, 0, NULL, 0},
        {EVICT, 3, 0, NULL, 0},
        {KILL, 0, 0, NULL, 0},
        {SAY, 7, 0, SHORT, 0},
        {BACK, 0, 0, NULL, 0},
        {CARRY, 7, 0, NULL, 0},
        {SAY, 7, 0, SHORT, 0},
        {RESTART, 0, 0, NULL, 0},
};
enum { N_OTHER_STEPS = 12 /* at the end, about carrying */ };

/* For a model that has more to remember than keys and values of all tokens. Its tokens are bytes, so texts
 * are short. */
static const char SYSTEM_C[] = "Be kind to everyone.";
static const char LONG_C[] = "Ada has a dog called Rex, two cats and a green house near the river.";
static const char SHORT_C[] = "And you?";

static const struct step class_steps[] = {
        {OPEN, 1, 0, SYSTEM_C, 0},
        {SAY, 1, 0, LONG_C, 0},
        {IDLE, 0, 0, NULL, 0}, /* states and the tail are written */
        {FORK, 1, 2, NULL, 0},
        {EDIT, 1, 0, NULL, 2}, /* once more, from the checkpoint before the reply */
        {SAY, 1, 0, SHORT_C, 0},
        {SAY, 1, 0, LONG_C, 0},
        {KILL, 0, 0, NULL, 0},
        {SAY, 1, 0, SHORT_C, 0}, /* with checkpoints that were not written */
        {IDLE, 0, 0, NULL, 0},
        {EVICT, 1, 0, NULL, 0},
        {SAY, 2, 0, SHORT_C, 0},
        {EVICT, 2, 0, NULL, 0},
        {REWIND, 1, 0, NULL, 5}, /* checkpoints behind it are unlinked */
        {FORK_AT, 1, 3, NULL, 3},
        {SAY, 3, 0, LONG_C, 0},
        {RESTART, 0, 0, NULL, 0},
        {EDIT, 3, 0, NULL, 4},
        {PUBLISH, 3, 0, NULL, 0},
        {OPEN, 4, 0, SYSTEM_C, 0},
        {SAY, 4, 0, LONG_C, 0}, /* parts from others, and leaves a checkpoint there */
        {EVICT, 3, 0, NULL, 0},
        {WARM, 1, 0, NULL, 0},
        {EDIT, 1, 0, SHORT_C, 1},
        {IDLE, 0, 0, NULL, 0},
        {EXPORT, 4, 0, NULL, 0},
        {IMPORT, 0, 5, NULL, 0},
        {SAY, 5, 0, SHORT_C, 0},
        {EVICT, 5, 0, NULL, 0},
        {EXPORT, 5, 0, NULL, 0},
        {CLOSE, 4, 0, NULL, 0},
        {CLOSE, 5, 0, NULL, 0},
        {KILL, 0, 0, NULL, 0},
        {IMPORT, 0, IMPORTED, NULL, 0},
        {SAY, IMPORTED, 0, SHORT_C, 0},
        {OPEN_SHIFT, 7, 0, SYSTEM_C, 0},
        {SAY, 7, 0, LONG_C, 0},
        {SAY, 7, 0, SHORT_C, 0},
        {SAY, 7, 0, SHORT_C, 0},
        {SAY, 7, 0, SHORT_C, 0},
        {SAY, 7, 0, SHORT_C, 0}, /* so many checkpoints that some go */
        {IDLE, 0, 0, NULL, 0},
        {SAY, 7, 0, LONG_C, 0},
        {SAY, 7, 0, LONG_C, 0}, /* drops */
        {EVICT, 7, 0, NULL, 0},
        {REWIND, 7, 0, NULL, 5}, /* inside of what was dropped */
        {SAY, 7, 0, SHORT_C, 0},
        {RESTART, 0, 0, NULL, 0},
};

static const struct step *steps = all_steps;
enum { MAX_STEPS = ARRAY_SIZE(all_steps) };
static size_t n_steps = ARRAY_SIZE(all_steps);
static uint32_t context = 288;
static const char *arch; /* of the small model, or NULL: the bundled one */

/* What a conversation is after some step, and how it goes on from there. */
struct image {
        bool exists, pinned, other_words; /* its tokens are those of the other model's vocabulary */
        uint32_t n_turns, n_published, dropped_from, dropped_to;
        size_t n_tokens, n_next;
        int32_t tokens[MAX_HISTORY];
        int32_t next[8];
        float logprobs[8];
};
static struct image images[MAX_STEPS + 1][N_CONVS + 1]; /* after so many steps; [0]: before any */
static struct image asked[MAX_STEPS]; /* in the middle of a step: its message has no reply yet */

static struct answer A;
static const char *self;
static long n_points;
static uint64_t n_from_disk, n_imported, n_damaged, n_carried, n_unanswered;

/* Made by the parent: the model, and the bundled one with another word in its vocabulary: the same weights,
 * so the same tokens go on with the same bits. */
static char own_model[4096], other_model[64];
static uint64_t pool_size;

static void make_own_model(void) {
        if (!arch) {
                erig_need_model();
                snprintf(own_model, sizeof(own_model), "%s", erig_model());
                pool_size = erig_pool(14);
                return;
        }
        strcpy(own_model, "/tmp/confab-own-XXXXXX");
        close(mkstemp(own_model));
        assert_int_equal(tiny_model_write_arch(own_model, arch), 0);
        pool_size = erig_pool_of(own_model, 32);
}

static void make_other_model(void) {
        /* A string's length, then U+2581 (SPM's space) and the word. */
        static const char word[] = "\6\0\0\0\0\0\0\0\xe2\x96\x81"
                                   "dog";
        char *data = NULL, *at;
        size_t n;

        strcpy(other_model, "/tmp/confab-other-XXXXXX");
        close(mkstemp(other_model));
        assert_int_equal(file_read_all(own_model, 64 << 20, &data, &n, NULL), 0);
        at = memmem(data, n, word, sizeof(word) - 1);
        assert_non_null(at);
        memcpy(at + 11, "dqg", 3);
        assert_int_equal(file_replace(other_model, data, n, 0600, NULL), 0);
        free(data);
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(pool_size);

        o.model_path = own_model;
        o.spill_delay_ms = 0;
        o.context = context;
        return o;
}

/* --- the program --- */

static int exported = -1; /* a memfd that may be imported */

/* What the client does with an export. Not the engine's writing: nothing is struck. */
static void take_export(int fd) {
        static uint8_t data[1 << 22];
        struct stat st;

        crash_pause(true);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size > 0 && (size_t)st.st_size <= sizeof(data));
        assert_int_equal(file_pread(fd, data, (size_t)st.st_size, 0, NULL), 0);
        if (exported >= 0)
                close(exported);
        exported = memfd_create("export", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(exported >= 0);
        assert_int_equal(file_pwrite(exported, data, (size_t)st.st_size, 0, NULL), 0);
        assert_int_equal(
                fcntl(exported, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
        crash_pause(false);
}

static enum engine_event_kind do_export(struct erig *r, struct engine_request *q) {
        enum engine_event_kind kind;

        q->verb = ENGINE_EXPORT;
        kind = erig_do(r, q, &A);
        if (kind == ENGINE_EXPORTED)
                take_export(A.fd);
        return kind;
}

/* Until all that can be written in the background is written. To ask is a turn of the engine thread,
 * which ends with the start of whatever is due; so if none runs twice in a row, none is due. */
static void wait_write_behind(struct erig *r) {
        for (unsigned n_at_rest = 0; n_at_rest < 2;)
                n_at_rest = erig_stat(r, "writebehind_running") > 0 ? 0 : n_at_rest + 1;
}

/* In the child, which goes through the program: where to tell the parent of messages that were accepted,
 * "?", and of steps that were acknowledged, "+". */
static int acknowledges = -1;

static void acknowledge(const char *what) {
        crash_pause(true);
        while (write(acknowledges, what, 1) < 0 && errno == EINTR)
                ;
        crash_pause(false);
}

static enum engine_event_kind do_step(struct erig *r, const struct step *s) {
        struct engine_request q = {
                .conv_id = (uint64_t)s->conv, .at_turn = ENGINE_UNSET, .at_position = ENGINE_UNSET};

        switch (s->act) {
        case OPEN:
                q = (struct engine_request){.verb = ENGINE_OPEN, .system = s->text};
                break;
        case OPEN_SHIFT:
                q = (struct engine_request){
                        .verb = ENGINE_OPEN, .system = s->text, .overflow = ENGINE_OVERFLOW_SHIFT};
                break;
        case SAY:
                q = erig_say_request((uint64_t)s->conv, s->text, 4);
                q.ignore_eos = true;
                break;
        case EDIT:
                q = erig_say_request((uint64_t)s->conv, s->text ? s->text : "", 4);
                q.input = s->text ? ENGINE_INPUT_MESSAGE : ENGINE_INPUT_NONE;
                q.ignore_eos = q.cuts = true;
                q.at_turn = s->at;
                q.at_position = ENGINE_UNSET;
                break;
        case FORK:
        case FORK_AT:
                q.verb = ENGINE_FORK;
                q.at_turn = s->act == FORK_AT ? s->at : ENGINE_UNSET;
                break;
        case REWIND:
                q.verb = ENGINE_REWIND;
                q.at_turn = s->at;
                break;
        case EVICT:
                q.verb = ENGINE_EVICT;
                break;
        case WARM:
                q.verb = ENGINE_WARM;
                break;
        case PUBLISH:
        case UNPUBLISH:
                q.verb = ENGINE_PUBLISH;
                q.admin = true;
                q.publish = s->act == PUBLISH;
                break;
        case PIN:
        case UNPIN:
                q.verb = ENGINE_UPDATE;
                q.has_pinned = true;
                q.pinned = s->act == PIN;
                break;
        case EXPORT:
                return do_export(r, &q);
        case IMPORT:
                q = (struct engine_request){.verb = ENGINE_IMPORT, .fd = exported};
                break;
        case CLOSE:
                q.verb = ENGINE_CLOSE;
                break;
        case RESTART:
        case KILL:
                erig_stop(r, s->act == RESTART);
                return engine_open(&r->en, &r->o, &A.err) < 0 ? ENGINE_ERROR : ENGINE_EMPTY;
        case OTHER:
        case BACK:
                erig_stop(r, true);
                r->o.model_path = s->act == OTHER ? other_model : own_model;
                return engine_open(&r->en, &r->o, &A.err) < 0 ? ENGINE_ERROR : ENGINE_EMPTY;
        case CARRY:
                q.verb = ENGINE_CARRY;
                break;
        case IDLE:
                wait_write_behind(r);
                return ENGINE_EMPTY;
        }
        if (acknowledges < 0 || q.verb != ENGINE_CONTINUE)
                return erig_do(r, &q, &A);
        erig_send(r, &q, &A);
        while (!A.accepted && !A.final)
                erig_step(r);
        if (A.accepted && q.input != ENGINE_INPUT_NONE)
                acknowledge("?");
        erig_wait(r, &A);
        return A.kind;
}

static enum crash_mode child_mode;
static long child_point;
static int child_error;
static const char *child_dir;

static void test_child(void **state) {
        struct erig r = {.next = 1, .silence_msec = 60000, .o = options()};

        acknowledges = 3;
        r.o.state_dir = child_dir;
        crash_arm(child_mode, child_point, child_error, (uint64_t)child_point);
        if (engine_open(&r.en, &r.o, &A.err) < 0) {
                assert_true(child_mode >= FAULT_ONCE && crash_struck());
                return;
        }
        for (size_t i = 0; i < n_steps; i++) {
                if (do_step(&r, &steps[i]) == ENGINE_ERROR) {
                        if (!crash_struck())
                                fail_msg("step %zu: %s", i, A.err.msg);
                        break;
                }
                acknowledge("+");
        }
        /* It answers still, whatever failed. */
        if (r.en && child_mode >= FAULT_ONCE) {
                struct engine_request q = {.verb = ENGINE_LIST, .limit = 10};
                enum engine_event_kind kind = erig_do(&r, &q, &A);

                assert_true(
                        kind == ENGINE_CONVS || (child_mode == FAULT_FROM && kind == ENGINE_ERROR));
        }
        crash_pause(true);
        dprintf(acknowledges, "=%ld", crash_count());
        crash_pause(false);
        r.en = engine_free(r.en);
}

/* Run the program in @dir with a stop at @point. Returns the number of acknowledged steps, whether the
 * message of the next one was accepted, and the number of calls that were counted if it came to its
 * end (else -1). */
static size_t run_child(const char *dir, enum crash_mode mode, long point, int error,
        bool *accepted, long *n_calls) {
        char args[4][32], text[256] = "";
        char *argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "--child",
                (char *)(uintptr_t)dir, args[0], args[1], args[2], args[3], own_model, other_model,
                (char *)(uintptr_t)arch, NULL};
        posix_spawn_file_actions_t fa;
        int fds[2], status;
        size_t n = 0, acked = 0, i;
        extern char **environ;
        ssize_t k;
        pid_t pid;

        snprintf(args[0], sizeof(args[0]), "%d", (int)mode);
        snprintf(args[1], sizeof(args[1]), "%ld", point);
        snprintf(args[2], sizeof(args[2]), "%d", error);
        snprintf(args[3], sizeof(args[3]), "%llu", (unsigned long long)pool_size);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        posix_spawn_file_actions_init(&fa);
        posix_spawn_file_actions_adddup2(&fa, fds[1], 3);
        posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
        assert_int_equal(posix_spawn(&pid, self, &fa, NULL, argv, environ), 0);
        posix_spawn_file_actions_destroy(&fa);
        close(fds[1]);
        while ((k = read(fds[0], text + n, sizeof(text) - 1 - n)) > 0)
                n += (size_t)k;
        close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        for (i = 0; text[i] == '+' || text[i] == '?'; i++)
                acked += text[i] == '+';
        *accepted = i > 0 && text[i - 1] == '?';
        *n_calls = text[i] == '=' ? atol(text + i + 1) : -1;
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != CRASH_STATUS))
                fail_msg("mode %d, point %ld: the child ended with status %x after %zu steps",
                        (int)mode, point, status, acked);
        if (mode < FAULT_ONCE && WEXITSTATUS(status) != CRASH_STATUS)
                assert_true(*n_calls >= 0);
        return acked;
}

/* --- what is right --- */

static void continue_request(
        struct engine_request *q, uint64_t conv, const int32_t *tokens, size_t n_tokens) {
        *q = (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = conv,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = n_tokens,
                .max_tokens = 3,
                .want_logprobs = true,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .seed = 1}};
}

/* How a conversation of these tokens goes on in an engine that never forgot anything. */
static void fill_next(struct erig *straight, struct image *im) {
        uint64_t id = erig_new(straight, NULL, NULL);
        int32_t tokens[MAX_HISTORY + N_MORE];
        struct engine_request q;

        size_t n = im->dropped_from, n_last = im->n_tokens - im->dropped_to;

        /* The tokens that the memory does not leave out. */
        memcpy(tokens, im->tokens, n * sizeof(*tokens));
        memcpy(tokens + n, im->tokens + im->dropped_to, n_last * sizeof(*tokens));
        n += n_last;
        assert_true(n + N_MORE + 3 <= context); /* or it would be dropped for this, too */
        memcpy(tokens + n, MORE, sizeof(MORE));
        continue_request(&q, id, tokens, n + N_MORE);
        assert_int_equal(erig_do(straight, &q, &A), ENGINE_DONE);
        im->n_next = A.n_tokens;
        assert_int_equal(im->n_next, 3);
        memcpy(im->next, A.tokens, im->n_next * sizeof(*im->next));
        memcpy(im->logprobs, A.logprobs, im->n_next * sizeof(*im->logprobs));
        assert_int_equal(erig_simple(straight, ENGINE_CLOSE, id, NULL), ENGINE_EMPTY);
}

static void take_image(struct erig *r, int conv, struct image *im) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = (uint64_t)conv, .want_tokens = true};

        im->exists = erig_do(r, &q, &A) == ENGINE_CONV;
        if (!im->exists) {
                assert_int_equal(A.err.code, ERR_NOT_FOUND);
                return;
        }
        im->n_turns = A.conv.n_turns;
        im->n_tokens = A.conv.n_tokens;
        im->n_published = A.conv.n_published;
        im->pinned = A.conv.pinned;
        im->dropped_from = A.conv.dropped_from;
        im->dropped_to = A.conv.dropped_to;
        im->other_words = A.conv.other_vocab != (r->o.model_path == other_model);
        assert_true(im->n_tokens <= MAX_HISTORY);
        if (im->n_tokens > 0)
                memcpy(im->tokens, A.history, im->n_tokens * sizeof(*im->tokens));
}

static bool same_history(const struct image *a, const struct image *b) {
        return a->exists == b->exists && a->pinned == b->pinned &&
               a->other_words == b->other_words && a->n_turns == b->n_turns &&
               a->n_tokens == b->n_tokens && a->n_published == b->n_published &&
               a->dropped_from == b->dropped_from && a->dropped_to == b->dropped_to &&
               memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0;
}

/* What is there of step @i once its message was accepted. */
static void take_asked(struct erig *r, struct erig *straight, size_t i) {
        const struct step *step = &steps[i];
        struct image *im = &asked[i];

        if ((step->act != SAY && step->act != EDIT) || !step->text)
                return;
        *im = images[i + 1][step->conv];
        erig_get(r, (uint64_t)step->conv, &A);
        assert_true(A.n_turns >= 2 && A.turns[A.n_turns - 1].finish != ENGINE_FINISH_NONE);
        im->n_turns--;
        im->n_tokens = A.turns[A.n_turns - 2].end;
        fill_next(straight, im);
}

/* The script reaches what it is for. */
static void check_images(size_t n) {
        /* It has dropped something, and the last edit is inside of that. */
        assert_true(images[n - 4][7].dropped_to > images[n - 4][7].dropped_from);
        assert_int_equal(images[n][7].dropped_to, 0);
        /* Carrying has changed the tokens of what was said about the dog. */
        assert_true(images[n + 3][3].other_words && images[n_steps][3].other_words);
        assert_true(images[n + 3][3].n_tokens > images[n + 2][3].n_tokens);
        assert_true(images[n + 5][7].other_words && !images[n_steps][7].other_words);
}

static void check_class_images(void) {
        assert_true(images[n_steps - 3][7].dropped_to > images[n_steps - 3][7].dropped_from);
        assert_int_equal(images[n_steps][7].dropped_to, 0);
}

static void make_images(void) {
        struct engine_options o = options(), big = erig_options(256 << 20);
        struct erig r, straight;

        big.model_path = own_model;
        erig_open(&r, &o);
        erig_open(&straight, &big);
        for (size_t i = 0; i < n_steps; i++) {
                if (do_step(&r, &steps[i]) == ENGINE_ERROR)
                        fail_msg("step %zu: %s", i, A.err.msg);
                for (int c = 1; c <= N_CONVS; c++) {
                        struct image *im = &images[i + 1][c];

                        take_image(&r, c, im);
                        if (im->exists && same_history(im, &images[i][c]))
                                *im = images[i][c];
                        else if (im->exists)
                                fill_next(&straight, im);
                }
                take_asked(&r, &straight, i);
        }
        if (arch)
                check_class_images();
        else
                check_images(n_steps - N_OTHER_STEPS);
        erig_close(&straight);
        erig_close(&r);
}

/* --- looking at what a stop left --- */

static void check_conversation(struct erig *r, size_t acked, bool accepted, int c) {
        static struct image now;
        const struct image *before = &images[acked][c];
        const struct image *after = &images[MIN(acked + 1, n_steps)][c], *is;
        struct engine_request q;

        memset(&now, 0, sizeof(now));
        take_image(r, c, &now);
        is = same_history(&now, before) ? before : after;
        if (acked < n_steps && steps[acked].conv == c && asked[acked].exists) {
                if (accepted && is == before)
                        fail_msg("after %zu steps conversation %d has lost a message that was "
                                 "accepted",
                                acked, c);
                if (same_history(&now, &asked[acked])) {
                        is = &asked[acked];
                        n_unanswered++;
                }
        }
        if (!same_history(&now, is))
                fail_msg("after %zu steps conversation %d has %u turns, %zu tokens, not %u, %zu or "
                         "%u, %zu",
                        acked, c, now.n_turns, now.n_tokens, before->n_turns, before->n_tokens,
                        after->n_turns, after->n_tokens);
        if (!is->exists)
                return;
        if (is->other_words != (r->o.model_path == other_model)) {
                continue_request(&q, (uint64_t)c, MORE, N_MORE);
                assert_int_equal(erig_do(r, &q, &A), ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_STATE);
                if (erig_simple(r, ENGINE_CARRY, (uint64_t)c, &A) != ENGINE_CONV)
                        fail_msg("conversation %d cannot be carried over: %s", c, A.err.msg);
                assert_true(A.conv.carried && A.conv.n_turns == is->n_turns);
                n_carried++;
                return;
        }
        continue_request(&q, (uint64_t)c, MORE, N_MORE);
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("conversation %d cannot be continued: %s", c, A.err.msg);
        n_from_disk += A.n_disk;
        n_imported += c == IMPORTED ? A.n_disk : 0;
        assert_int_equal(A.n_tokens, is->n_next);
        assert_memory_equal(A.tokens, is->next, is->n_next * sizeof(*is->next));
        assert_memory_equal(A.logprobs, is->logprobs, is->n_next * sizeof(*is->logprobs));
}

static const char *model_after(size_t n) {
        const char *model = own_model;

        for (size_t i = 0; i < n; i++)
                if (steps[i].act == OTHER || steps[i].act == BACK)
                        model = steps[i].act == OTHER ? other_model : own_model;
        return model;
}

static void check_folder(const char *dir, enum crash_mode mode, size_t acked, bool accepted) {
        struct engine_options o = options();
        struct erig r = {.next = 1, .silence_msec = 60000, .o = o};
        uint64_t damaged;

        snprintf(r.dir, sizeof(r.dir), "%s", dir);
        r.o.state_dir = r.dir;
        r.o.model_path = model_after(acked);
        erig_start(&r);
        for (int c = 1; c <= N_CONVS; c++)
                check_conversation(&r, acked, accepted, c);
        damaged = erig_stat(&r, "restore_failures");
        n_damaged += damaged;
        if (mode != CRASH_POWER)
                assert_int_equal(damaged, 0);
        erig_check_budget(&r);
        erig_restart(&r, true);
        for (int c = 1; c <= N_CONVS; c++)
                erig_simple(&r, ENGINE_CLOSE, (uint64_t)c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

static void stop_at(enum crash_mode mode, long point, int error) {
        char dir[] = "/tmp/confab-crash-XXXXXX";
        size_t acked;
        long n;
        bool accepted;

        assert_non_null(mkdtemp(dir));
        acked = run_child(dir, mode, point, error, &accepted, &n);
        check_folder(dir, mode, acked, accepted);
}

static long count_calls(void) {
        char dir[] = "/tmp/confab-crash-XXXXXX", cmd[64];
        long n;
        bool accepted;

        assert_non_null(mkdtemp(dir));
        assert_int_equal(run_child(dir, CRASH_COUNT, -1, 0, &accepted, &n), n_steps);
        assert_true(n > 0);
        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
        assert_int_equal(system(cmd), 0);
        return n;
}

static void run_points(enum crash_mode mode, int error, const char *what) {
        long end, points = 0;

        if (!images[1][1].exists) {
                make_own_model();
                if (!arch)
                        make_other_model();
                make_images();
        }
        end = count_calls();
        for (long i = 0; i < (n_points > 0 ? MIN(n_points, end) : end); i++, points++) {
                long point = n_points > 0 && n_points < end ? i * end / n_points : i;

                stop_at(mode, point, error);
        }
        print_message("%s: %ld of %ld points\n", what, points, end);
}

static void test_stop_before(void **state) {
        run_points(CRASH_BEFORE, 0, "stopped before the call");
}

static void test_stop_within(void **state) {
        run_points(CRASH_TORN, 0, "stopped in the middle of the call");
}

static void test_power_loss(void **state) {
        run_points(CRASH_POWER, 0, "power lost");
}

static void test_eio_once(void **state) {
        run_points(FAULT_ONCE, EIO, "one input/output error");
}

static void test_full_from(void **state) {
        run_points(FAULT_FROM, ENOSPC, "disk full from there");
}

static void test_read_only_from(void **state) {
        run_points(FAULT_FROM, EROFS, "read-only from there");
}

static void test_memory_came_back(void **state) {
        bool few = n_points > 0 && n_points < 15;

        if (!arch)
                erig_need_model();
        print_message("%llu tokens came from disk, %llu of them imported, %llu records were found "
                      "damaged\n",
                (unsigned long long)n_from_disk, (unsigned long long)n_imported,
                (unsigned long long)n_damaged);
        assert_true(n_from_disk > 0);
        /* A few points may miss the steps with the import, those between another model and what is carried over from
         * it, and those that leave a message unanswered. */
        assert_true(n_imported > 0 || few);
        assert_true(arch || n_carried > 0 || few);
        assert_true(n_unanswered > 0 || few);
        unlink(arch ? own_model : other_model);
}

static void use_arch(const char *name) {
        if (!name)
                return;
        arch = name;
        steps = class_steps;
        n_steps = ARRAY_SIZE(class_steps);
        context = 320;
}

int main(int argc, char **argv) {
        const struct CMUnitTest child[] = {cmocka_unit_test(test_child)};
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stop_before),
                cmocka_unit_test(test_stop_within),
                cmocka_unit_test(test_power_loss),
                cmocka_unit_test(test_eio_once),
                cmocka_unit_test(test_full_from),
                cmocka_unit_test(test_read_only_from),
                cmocka_unit_test(test_memory_came_back),
        };

        self = "/proc/self/exe";
        if (argc >= 9 && strcmp(argv[1], "--child") == 0) {
                pool_size = strtoull(argv[6], NULL, 10);
                snprintf(own_model, sizeof(own_model), "%s", argv[7]);
                snprintf(other_model, sizeof(other_model), "%s", argv[8]);
                use_arch(argc > 9 ? argv[9] : NULL);
                child_dir = argv[2];
                child_mode = (enum crash_mode)atoi(argv[3]);
                child_point = atol(argv[4]);
                child_error = atoi(argv[5]);
                return cmocka_run_group_tests(child, NULL, NULL);
        }
        use_arch(argc > 1 && *argv[1] ? argv[1] : NULL);
        n_points = argc > 2 ? atol(argv[2]) : test_depth(6, arch ? 12 : 30, 100);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
