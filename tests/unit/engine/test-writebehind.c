/* SPDX-License-Identifier: MIT */
/*
 * Write-behind and disk limits: each full block is written once in its life, whatever happens to
 * its conversation during the write; no request waits for the write; space is taken where it is
 * missed least. Replies are those of an engine that never evicts.
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "link-rig.h"
#include "rig.h"
#include "store/store.h"
#include "util/test.h"

static struct answer A, B, expected[4];

static const char STORY[] =
        "This is a rather long story about a green house near a river, where seven birds live and "
        "sing at night. In winter there is snow on the stones, and Ada walks there with her dog.";
static const char *const texts[] = {STORY, "What does Ada like?", "And where?",
        "Tell me more about the birds, the river and the snow in winter, please."};

/* Three blocks and more. */
static const char MORE[] =
        "Then the wind came over the hills, and the birds went into the house, one after the "
        "other, "
        "the old ones first and the young ones last. Ada made a fire, and they sat by it, and told "
        "each other what the river had said in spring, what the stones had said in summer, and "
        "what "
        "the snow would say as soon as the wind had gone. Which of them would you like to hear, "
        "and "
        "why just this one, if I may ask?";

static void answers(void) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (size_t i = 0; i < 4; i++)
                erig_say(&r, c, texts[i], 12, &expected[i]);
        erig_close(&r);
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = 0;
        return o;
}

static uint32_t full_blocks(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_GET, c, &B), ENGINE_CONV);
        /* The last token of a reply is sampled, not computed. */
        return (B.conv.n_tokens - 1) / (uint32_t)erig_stat(r, "block_tokens");
}

static void test_once(void **state) {
        struct engine_options o = options();
        struct engine_request q = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c, d, n, evicted;

        answers();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[0], 12, &A);
        n = full_blocks(&r, c);
        assert_true(n >= 2);
        assert_int_equal(erig_wait_stat(&r, "writebehind_blocks", n), n);
        assert_int_equal(erig_stat(&r, "evict_blocks_written"), 0);
        /* What a turn adds is what is written; the tail waits for the eviction. */
        erig_say(&r, c, texts[1], 12, &A);
        answer_same(&A, &expected[1]);
        n = full_blocks(&r, c);
        assert_int_equal(erig_wait_stat(&r, "writebehind_blocks", n), n);
        /* A fork has nothing of its own to write. */
        q.conv_id = c;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        d = A.conv.id;
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        evicted = erig_stat(&r, "evict_blocks_written");
        assert_true(evicted <= 1);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "evict_blocks_written"), evicted);
        assert_int_equal(erig_stat(&r, "writebehind_blocks"), n);
        /* And what comes back is clean. */
        erig_say(&r, c, texts[2], 12, &A);
        answer_same(&A, &expected[2]);
        assert_true(A.n_disk > 0);
        erig_say(&r, d, texts[2], 12, &B);
        answer_same(&B, &expected[2]);
        n = full_blocks(&r, c);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "blocks_lost"), 0);
        erig_check_register(&r);
        erig_say(&r, d, texts[3], 12, &A);
        answer_same(&A, &expected[3]);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_simple(&r, ENGINE_CLOSE, d, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

/* Off: nothing is written before the eviction. */
static void test_off(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[0], 12, &A);
        for (int i = 0; i < 100; i++)
                assert_int_equal(erig_stat(&r, "bytes_spill_written"), 0);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        assert_true(erig_stat(&r, "bytes_spill_written") > 0);
        erig_close(&r);
}

/* Requests come at any moment of the writing. Whatever was written for nothing is given back. */
static void test_races(void **state) {
        struct engine_options o = options();
        struct engine_request rewind = {.verb = ENGINE_REWIND,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .drop_turns = 2};
        struct engine_request fork = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c;

        answers();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (int i = 0; i < ERIG_ROUNDS(40, 8); i++) {
                erig_say(&r, c, texts[0], 12, &A);
                answer_same(&A, &expected[0]);
                /* Let it come to another place each time. */
                for (int k = 0; k < i % 7; k++)
                        erig_stat(&r, "steps");
                switch (i % 5) {
                case 0:
                        erig_say(&r, c, texts[1], 12, &A);
                        answer_same(&A, &expected[1]);
                        rewind.conv_id = c;
                        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
                        break;
                case 1:
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
                        break;
                case 2:
                        fork.conv_id = c;
                        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, A.conv.id, &A), ENGINE_CONV);
                        assert_int_equal(
                                erig_simple(&r, ENGINE_CLOSE, A.conv.id, &A), ENGINE_EMPTY);
                        break;
                case 3:
                        erig_restart(&r, i % 2);
                        break;
                default:
                        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
                        c = erig_new(&r, NULL, NULL);
                        continue;
                }
                rewind.conv_id = c;
                assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_turns, 0);
                if (i % 10 == 9)
                        erig_check_register(&r);
        }
        erig_check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

/* Writing can be held up: a record is begun, and goes on when the test says so. */
static sem_t writing, go_on;
static atomic_int held_up; /* the so manieth record from now; 0: none */

#define WRAP_PWRITEV(name)                                                                         \
        ssize_t __real_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at) {                  \
                if (atomic_load(&held_up) > 0 && atomic_fetch_sub(&held_up, 1) == 1) {             \
                        sem_post(&writing);                                                        \
                        while (sem_wait(&go_on) < 0)                                               \
                                ;                                                                  \
                }                                                                                  \
                return __real_##name(fd, iov, n, at);                                              \
        }
WRAP_PWRITEV(pwritev)
WRAP_PWRITEV(pwritev64)

/* While its blocks are being written the conversation is rewound, and goes on with other tokens to
 * the same length: what was written is not linked. */
static void test_rewound_while_writing(void **state) {
        struct engine_options o = options();
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = 0, .at_position = ENGINE_UNSET};
        struct erig r;
        uint64_t c;

        assert_int_equal(sem_init(&writing, 0, 0), 0);
        assert_int_equal(sem_init(&go_on, 0, 0), 0);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        atomic_store(&held_up, 1);
        erig_append_tokens(&r, c, 300, 100);
        while (sem_wait(&writing) < 0)
                ;
        rewind.conv_id = c;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        erig_append_tokens(&r, c, 500, 100);
        /* Behind the other two the new ones are written: when that begins, the old ones are over.
         */
        atomic_store(&held_up, 3);
        sem_post(&go_on);
        while (sem_wait(&writing) < 0)
                ;
        erig_look_at_register(&r);
        assert_int_equal(erig_stat(&r, "writebehind_blocks"), 0);
        sem_post(&go_on);
        assert_int_equal(erig_wait_stat(&r, "writebehind_blocks", 3), 3);
        erig_check_register(&r);
        erig_say(&r, c, "What does Ada like?", 8, &A);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

/* While a conversation's blocks are being written it is published, and those of another user take their place,
 * which have the same tokens. The other user's conversation finds their records then, though by now it would not be
 * shown them. */
static void test_merged_while_writing(void **state) {
        struct engine_options o = options();
        struct engine_request open = {.verb = ENGINE_OPEN, .owner = 7}, publish, q;
        int32_t tokens[100];
        struct erig r;
        uint64_t c, d;

        assert_int_equal(sem_init(&writing, 0, 0), 0);
        assert_int_equal(sem_init(&go_on, 0, 0), 0);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        atomic_store(&held_up, 1);
        erig_append_tokens(&r, c, 300, ARRAY_SIZE(tokens));
        while (sem_wait(&writing) < 0)
                ;
        assert_int_equal(erig_do(&r, &open, &A), ENGINE_CONV);
        d = A.conv.id;
        erig_get(&r, c, &A);
        assert_int_equal(A.n_history, ARRAY_SIZE(tokens));
        memcpy(tokens, A.history, sizeof(tokens));
        q = (struct engine_request){.verb = ENGINE_CONTINUE,
                .owner = 7,
                .conv_id = d,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = ARRAY_SIZE(tokens)};
        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
        assert_int_equal(A.n_computed, ARRAY_SIZE(tokens));
        publish = erig_request(ENGINE_PUBLISH, d);
        publish.owner = 7;
        publish.admin = publish.publish = true;
        if (erig_do(&r, &publish, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        publish.owner = 0;
        publish.conv_id = c;
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        publish.publish = false;
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        sem_post(&go_on);
        for (unsigned n_at_rest = 0; n_at_rest < 2;)
                n_at_rest = erig_stat(&r, "writebehind_running") > 0 ? 0 : n_at_rest + 1;
        assert_int_equal(erig_stat(&r, "writebehind_blocks"), 3);
        assert_int_equal(erig_stat(&r, "blocks_linked"), 3);
        erig_check_register(&r);
        erig_close(&r);
}

/* Of a record of which the conversation has only a part, since it was rewound into the block and went on
 * differently, just that part is taken after a restart. */
static void test_part_of_a_record(void **state) {
        struct engine_options o = options();
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = ENGINE_UNSET, .at_position = 10};
        struct engine_request q = {
                .verb = ENGINE_UPDATE, .sampling = {.has = SAMPLING_TEMPERATURE, .temperature = 1}};
        struct engine_request raw, say;
        char path[128];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        /* Room for one record, and no second one. */
        o.disk_limit = erig_stat(&r, "block_bytes") * 3 / 2;
        erig_close(&r);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        raw = erig_say_request(c, STORY, 0);
        raw.input = ENGINE_INPUT_RAW;
        assert_int_equal(erig_do(&r, &raw, &A), ENGINE_DONE);
        assert_int_equal(erig_wait_stat(&r, "writebehind_blocks", 1), 1);
        rewind.conv_id = c;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        raw.text = STORY + 20;
        raw.text_size = strlen(STORY) - 20;
        assert_int_equal(erig_do(&r, &raw, &A), ENGINE_DONE);
        assert_int_equal(erig_wait_stat(&r, "spill_failures", 1), 1);
        erig_restart(&r, false);
        q.conv_id = c;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        assert_true(A.conv.disk_size > 0);
        say = erig_say_request(c, "What does Ada like?", 8);
        say.want_logprobs = true;
        assert_int_equal(erig_do(&r, &say, &A), ENGINE_DONE);
        assert_int_equal(A.n_disk, 10);
        assert_true(A.differs_at >= 10);
        /* The same without any memory. */
        rewind.at_position = ENGINE_UNSET;
        rewind.drop_turns = 2;
        assert_int_equal(erig_do(&r, &rewind, &B), ENGINE_CONV);
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "rm -rf '%s/spill'", r.dir);
        assert_int_equal(system(path), 0);
        erig_start(&r);
        assert_int_equal(erig_do(&r, &say, &B), ENGINE_DONE);
        assert_int_equal(B.n_disk, 0);
        assert_int_equal(B.n_tokens, A.n_tokens);
        assert_memory_equal(B.logprobs, A.logprobs, A.n_tokens * sizeof(A.logprobs[0]));
        erig_check_register(&r);
        erig_close(&r);
}

/* A full disk takes the place of what was updated longest ago; nothing is exchanged for ever. */
static void test_total_limit(void **state) {
        enum { N = 6 };
        struct engine_options o = options();
        struct erig r;
        uint64_t c[N], written;

        answers();
        o.disk_limit = 200000;
        erig_open(&r, &o);
        for (int i = 0; i < N; i++) {
                c[i] = erig_new(&r, NULL, NULL);
                A.n_shared = 0;
                erig_say(&r, c[i], texts[i % 2 ? 3 : 0], 12 + (uint32_t)i, &A);
                erig_simple(&r, ENGINE_EVICT, c[i], &A);
                assert_true(erig_stat(&r, "spill_disk_bytes") <= o.disk_limit);
        }
        for (int i = 0; i < 3; i++) {
                char text[512];

                snprintf(text, sizeof(text), "%d: %s", i, texts[0]);
                c[i] = erig_new(&r, NULL, NULL);
                erig_say(&r, c[i], text, 12, &A);
                erig_simple(&r, ENGINE_EVICT, c[i], &A);
        }
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        /* The newest is there. */
        assert_true(A.conv.disk_size > 0);
        written = erig_stat(&r, "bytes_spill_written");
        for (int i = 0; i < 200; i++)
                erig_stat(&r, "steps");
        assert_int_equal(erig_stat(&r, "bytes_spill_written"), written);
        erig_check_register(&r);
        erig_close(&r);
}

/* Another user says something and evicts it, in @n conversations. */
static void another_writes(struct erig *r, int n) {
        struct engine_request open = {.verb = ENGINE_OPEN, .owner = 7};

        for (int i = 0; i < n; i++) {
                struct engine_request say, evict = {.verb = ENGINE_EVICT, .owner = 7};
                char text[512];

                assert_int_equal(erig_do(r, &open, &A), ENGINE_CONV);
                evict.conv_id = A.conv.id;
                snprintf(text, sizeof(text), "%d: %s", i, texts[0]);
                say = erig_say_request(A.conv.id, text, 4);
                say.owner = 7;
                assert_int_equal(erig_do(r, &say, &A), ENGINE_DONE);
                assert_int_equal(erig_do(r, &evict, &A), ENGINE_CONV);
                assert_true(A.conv.disk_size > 0);
        }
}

/* Nothing is written before a conversation has been idle for so long. */
static void test_delay(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        erig_need_model();
        o.spill_delay_ms = 60000;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[0], 12, &A);
        for (int i = 0; i < 300; i++)
                assert_int_equal(erig_stat(&r, "bytes_spill_written"), 0);
        erig_close(&r);
}

/* After a refusal nothing more is tried for a while. */
static void test_refused(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        erig_need_model();
        o.disk_limit = 1;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[0], 12, &A);
        erig_wait_stat(&r, "spill_failures", 1);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[3], 12, &A);
        for (int i = 0; i < 300; i++)
                assert_int_equal(erig_stat(&r, "spill_failures"), 1);
        erig_close(&r);
}

/* Of one user: others have room. */
static void test_uid_limit(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t first;

        answers();
        o.disk_limit_per_owner = 150000;
        erig_open(&r, &o);
        first = erig_new(&r, NULL, NULL);
        erig_say(&r, first, texts[0], 12, &A);
        erig_simple(&r, ENGINE_EVICT, first, &A);
        another_writes(&r, 6);
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        erig_say(&r, first, texts[1], 12, &A);
        answer_same(&A, &expected[1]);
        assert_true(A.n_disk > 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* Of all users: one who writes much makes room among its own. */
static void test_total_limit_is_shared(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t first, size;

        answers();
        o.disk_limit = 600000;
        erig_open(&r, &o);
        first = erig_new(&r, NULL, NULL);
        erig_say(&r, first, texts[0], 12, &A);
        erig_simple(&r, ENGINE_EVICT, first, &A);
        size = A.conv.disk_size;
        assert_true(size > 0 && size < o.disk_limit / 2);
        another_writes(&r, 12);
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        erig_simple(&r, ENGINE_GET, first, &A);
        assert_int_equal(A.conv.disk_size, size);
        erig_say(&r, first, texts[1], 12, &A);
        answer_same(&A, &expected[1]);
        assert_true(A.n_disk > 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* After so many bytes it is over for today, also after a restart; nobody else loses anything. */
static void test_day_limit(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d, today;

        answers();
        o.disk_writes_per_day = 400000;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, texts[0], 12, &A);
        erig_simple(&r, ENGINE_EVICT, c, &A);
        assert_true(erig_stat(&r, "spill_records") > 0);
        today = erig_stat(&r, "bytes_spill_today");
        assert_true(today > 0 && today <= o.disk_writes_per_day);
        erig_restart(&r, true);
        assert_int_equal(erig_stat(&r, "bytes_spill_today"), today);
        for (int i = 0; i < 6; i++) {
                char text[512];

                snprintf(text, sizeof(text), "%d: %s", i, texts[0]);
                d = erig_new(&r, NULL, NULL);
                erig_say(&r, d, text, 4, &A);
                erig_simple(&r, ENGINE_EVICT, d, &A);
        }
        assert_true(erig_stat(&r, "bytes_spill_today") <= o.disk_writes_per_day);
        assert_int_equal(erig_stat(&r, "reclaimed_bytes"), 0);
        assert_true(erig_stat(&r, "blocks_lost") > 0);
        assert_int_equal(A.conv.residency, ENGINE_COLD);
        erig_say(&r, c, texts[1], 12, &A);
        answer_same(&A, &expected[1]);
        erig_check_register(&r);
        erig_close(&r);
}

/* --- links that wait --- */

/* Records that a conversation takes over while its earlier ones are being linked are not linked by
 * that: the eviction does it. */
static void test_taken_while_linking(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d;
        uint32_t n;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        d = erig_new(&r, NULL, NULL);
        erig_say(&r, d, STORY, 12, &A);
        erig_say(&r, d, MORE, 12, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        erig_stop(&r, true);
        r.o.spill_delay_ms = 0;
        erig_start(&r);
        gate_close(&link_gate, 0);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, STORY, 12, &A);
        assert_true(A.n_disk > 0);
        gate_wait(&link_gate);
        erig_say(&r, c, MORE, 12, &A);
        assert_true(A.n_disk > 0);
        gate_open(&link_gate);
        erig_wait_stat(&r, "blocks_linked", 1);
        n = full_blocks(&r, c);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, &A), ENGINE_EMPTY);
        erig_restart(&r, true);
        erig_say(&r, c, "And?", 4, &A);
        assert_true(A.n_disk >= n * erig_stat(&r, "block_tokens"));
        erig_check_register(&r);
        erig_close(&r);
}

static struct gate rewind_gate = GATE_INIT;

int __real_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);
int __wrap_store_rewind(struct store *s, uint64_t id, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e) {
        gate_pass(&rewind_gate);
        return __real_store_rewind(s, id, n_turns, last, gap, ret_revision, gone, e);
}

/* What was written waits for a Rewind before it is linked, and pins its blocks without any job of its
 * own. When the Rewind ends, a request that needs the room of these blocks waits for the link. */
static void test_room_pinned_by_what_waits_to_link(void **state) {
        struct engine_options o = options();
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = 0, .at_position = ENGINE_UNSET};
        struct engine_request again;
        struct erig r;
        uint64_t c, d;

        assert_int_equal(sem_init(&writing, 0, 0), 0);
        assert_int_equal(sem_init(&go_on, 0, 0), 0);
        o.pool_size = erig_pool(6);
        erig_open(&r, &o);
        d = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, d, 700, 140);
        assert_int_equal(erig_wait_stat(&r, "writebehind_blocks", 4), 4);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);

        c = erig_new(&r, NULL, NULL);
        atomic_store(&held_up, 1);
        erig_append_tokens(&r, c, 300, 100);
        while (sem_wait(&writing) < 0)
                ;
        gate_close(&rewind_gate, 0);
        rewind.conv_id = c;
        erig_send(&r, &rewind, &B);
        gate_wait(&rewind_gate);
        sem_post(&go_on);
        erig_settle(r.en); /* all is written, and waits to be linked */
        again = erig_say_request(d, "And?", 4);
        erig_send(&r, &again, &A);
        erig_settle(r.en); /* it waits for room */
        gate_open(&rewind_gate);
        erig_wait(&r, &B);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_true(A.n_disk > 0);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_once),
                cmocka_unit_test(test_off),
                cmocka_unit_test(test_races),
                cmocka_unit_test(test_rewound_while_writing),
                cmocka_unit_test(test_merged_while_writing),
                cmocka_unit_test(test_part_of_a_record),
                cmocka_unit_test(test_total_limit),
                cmocka_unit_test(test_delay),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_uid_limit),
                cmocka_unit_test(test_total_limit_is_shared),
                cmocka_unit_test(test_day_limit),
                cmocka_unit_test(test_taken_while_linking),
                cmocka_unit_test(test_room_pinned_by_what_waits_to_link),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
