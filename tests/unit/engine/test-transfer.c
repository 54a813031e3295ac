/* SPDX-License-Identifier: MIT */
/*
 * Export and import: the imported conversation equals the exported one, bit for bit. A damaged or
 * malicious file leaves nothing behind, or harms only the user who imports it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "engine/verbs/transfer-format.h"
#include "rig.h"
#include "util/test.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static struct answer A, B, C, D;

struct file {
        uint8_t *data;
        size_t size;
};

static void get(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = conv, .want_turns = true, .want_tokens = true};

        assert_int_equal(erig_do(r, &q, a), ENGINE_CONV);
}

static bool exists(struct erig *r, const char *name) {
        struct engine_request q = {.verb = ENGINE_GET, .conv_name = name};

        if (erig_do(r, &q, &D) == ENGINE_CONV)
                return true;
        assert_int_equal(D.err.code, ERR_NOT_FOUND);
        return false;
}

/* The file's bytes, to be freed. */
static struct file export(struct erig *r, uint64_t conv, bool without_memory) {
        struct engine_request q = {
                .verb = ENGINE_EXPORT, .conv_id = conv, .without_memory = without_memory};
        struct file f;
        struct stat st;

        if (erig_do(r, &q, &D) != ENGINE_EXPORTED)
                fail_msg("export: %s", D.err.msg);
        assert_int_equal(fstat(D.fd, &st), 0);
        assert_int_equal(st.st_size, D.size);
        assert_int_equal(st.st_nlink, 0);
        assert_int_equal(fcntl(D.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        f.size = (size_t)D.size;
        f.data = malloc(f.size);
        assert_non_null(f.data);
        assert_int_equal(file_pread(D.fd, f.data, f.size, 0, NULL), 0);
        return f;
}

static int memfd(const void *data, size_t n, int seals) {
        int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(file_pwrite(fd, data, n, 0, NULL), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static enum engine_event_kind import(
        struct erig *r, const void *data, size_t n, const char *name, struct answer *a) {
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = name};
        enum engine_event_kind kind;

        q.fd = memfd(data, n, SEALS);
        kind = erig_do(r, &q, a);
        close(q.fd);
        return kind;
}

static uint64_t import_good(struct erig *r, const struct file *f, const char *name) {
        if (import(r, f->data, f->size, name, &D) != ENGINE_CONV)
                fail_msg("import: %s", D.err.msg);
        return D.conv.id;
}

static void same_transcript(struct erig *r, uint64_t x, uint64_t y) {
        get(r, x, &C);
        get(r, y, &D);
        assert_int_equal(C.conv.n_tokens, D.conv.n_tokens);
        assert_int_equal(C.n_turns, D.n_turns);
        assert_int_equal(C.conv.created_usec, D.conv.created_usec);
        assert_memory_equal(C.history, D.history, C.conv.n_tokens * sizeof(*C.history));
        assert_memory_equal(&C.conv.sampling, &D.conv.sampling, sizeof(C.conv.sampling));
        for (uint32_t i = 0; i < C.n_turns; i++) {
                const struct engine_turn *s = &C.turns[i], *t = &D.turns[i];

                assert_int_equal(s->role, t->role);
                assert_int_equal(s->start, t->start);
                assert_int_equal(s->end, t->end);
                assert_int_equal(s->finish, t->finish);
                assert_int_equal(s->created_usec, t->created_usec);
                assert_int_equal(s->text_size, t->text_size);
                if (s->text_size > 0)
                        assert_memory_equal(s->text, t->text, s->text_size);
        }
}

static uint64_t dialogue(struct erig *r, const char *name) {
        struct engine_request q = {.verb = ENGINE_OPEN,
                .name = name,
                .system = "You are a helpful assistant who knows all animals of the world.",
                .sampling = {.has = SAMPLING_TOP_K | SAMPLING_BIASES,
                        .top_k = 40,
                        .n_biases = 2,
                        .biases = {{5, -1.5f}, {7, 0.25f}}}};
        uint64_t c;

        assert_int_equal(erig_do(r, &q, &D), ENGINE_CONV);
        c = D.conv.id;
        erig_say(r, c, "Hello, my name is Ada. I have a cat, a dog, a bird and a fish.", 30, &D);
        erig_say(r, c, "What is my name, and which animals do I have in my house?", 30, &D);
        return c;
}

static void round_trip(enum engine_kv kv_type) {
        struct engine_options o = erig_options(64 << 20);
        struct file f, g;
        struct erig r;
        uint64_t c, d, bt;

        o.kv_type = kv_type;
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        bt = erig_stat(&r, "block_tokens");
        f = export(&r, c, false);
        get(&r, c, &A);
        assert_true(A.conv.n_tokens > 3 * bt);
        assert_int_equal(D.n_memory % bt, 0);
        assert_true(D.n_memory + bt >= A.conv.n_tokens);
        /* From disk the same bytes come. */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        g = export(&r, c, false);
        assert_int_equal(f.size, g.size);
        assert_memory_equal(f.data, g.data, f.size);
        free(g.data);
        /* Its own name is taken, so it gets another one. */
        d = import_good(&r, &f, NULL);
        assert_string_not_equal(D.name, "origin");
        assert_int_equal(D.conv.residency, ENGINE_SPILLED);
        assert_true(D.conv.disk_size > 0);
        assert_false(D.conv.private_memory);
        same_transcript(&r, c, d);
        erig_say(&r, c, "Where do they live?", 24, &A);
        erig_say(&r, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_int_equal(B.n_ram + B.n_disk + B.n_shared >= bt, true);
        /* After a restart, under a name of its own. */
        d = import_good(&r, &f, "copy");
        assert_string_equal(D.name, "copy");
        erig_restart(&r, true);
        erig_say(&r, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_true(B.n_disk >= bt);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        d = import_good(&r, &f, NULL);
        assert_string_equal(D.name, "origin");
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        free(f.data);
        erig_close(&r);
}

static void test_round_trip(void **state) {
        (void)state;
        erig_need_model();
        for (enum engine_kv k = ENGINE_KV_F16; k <= ENGINE_KV_Q8_0; k++)
                round_trip(k);
}

static void test_without_memory(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct file f;
        struct erig r;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, "empty", NULL);
        f = export(&r, c, false);
        d = import_good(&r, &f, "empty too");
        same_transcript(&r, c, d);
        erig_say(&r, d, "Hello", 4, &A);
        free(f.data);
        c = dialogue(&r, NULL);
        f = export(&r, c, true);
        assert_int_equal(D.n_memory, 0);
        d = import_good(&r, &f, NULL);
        assert_int_equal(D.conv.residency, ENGINE_COLD);
        same_transcript(&r, c, d);
        erig_say(&r, c, "Where do they live?", 24, &A);
        erig_say(&r, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&r);
}

/* Memory of another kind is computed again. */
static void test_other_kv(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r, s;
        struct file f;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, NULL);
        f = export(&r, c, false);
        o.kv_type = ENGINE_KV_F32;
        erig_open(&s, &o);
        d = import_good(&s, &f, "from f16");
        assert_int_equal(D.conv.residency, ENGINE_COLD);
        assert_false(D.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 24, &A);
        assert_int_equal(A.n_computed, A.n_prompt);
        /* As a conversation with these tokens says there. */
        get(&s, d, &C);
        free(f.data);
        f = export(&s, d, false);
        assert_true(D.n_memory > 0);
        d = import_good(&s, &f, "f32 again");
        erig_say(&s, d, "And what do they eat?", 16, &A);
        assert_true(A.n_disk + A.n_shared > 0);
        free(f.data);
        erig_close(&s);
        erig_close(&r);
}

/* Made by another daemon: only its owner sees this memory. */
static void test_foreign(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {
                .verb = ENGINE_FORK, .at_turn = ENGINE_UNSET, .at_position = ENGINE_UNSET};
        struct engine_request p = {
                .verb = ENGINE_PUBLISH, .at_turn = ENGINE_UNSET, .admin = true, .publish = true};
        struct erig r, s;
        struct file f, g;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        f = export(&r, c, false);
        erig_say(&r, c, "Where do they live?", 24, &A);
        erig_open(&s, &o);
        d = import_good(&s, &f, NULL);
        assert_true(D.conv.private_memory);
        assert_true(D.conv.disk_size > 0);
        erig_say(&s, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_true(B.n_disk > 0);
        p.conv_id = q.conv_id = d;
        assert_int_equal(erig_do(&s, &p, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_STATE);
        assert_int_equal(erig_do(&s, &q, &B), ENGINE_CONV);
        assert_true(B.conv.private_memory);
        /* The same tokens said anew: nothing of it is taken, from RAM or from disk. */
        erig_restart(&s, true);
        d = dialogue(&s, "anew");
        assert_int_equal(erig_stat(&s, "tokens_reused_disk"), 0);
        get(&s, d, &B);
        assert_false(B.conv.private_memory);
        assert_int_equal(erig_stat(&s, "tokens_reused_shared"), 0);
        /* Going out and in again makes it no better. */
        d = import_good(&s, &f, "once");
        g = export(&s, d, false);
        d = import_good(&s, &g, "twice");
        assert_true(D.conv.private_memory);
        free(g.data);
        g = export(&s, d, true);
        d = import_good(&s, &g, "as text");
        assert_false(D.conv.private_memory);
        /* When all of it is gone, what is computed instead is as good as any. */
        s.o.kv_type = ENGINE_KV_F32;
        erig_restart(&s, true);
        assert_true(exists(&s, "twice"));
        d = D.conv.id;
        assert_true(D.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 4, &B);
        assert_int_equal(erig_simple(&s, ENGINE_EVICT, d, &B), ENGINE_CONV);
        assert_false(B.conv.private_memory);
        assert_true(B.conv.disk_size > 0);
        /* At home it still is as good as our own. */
        d = import_good(&r, &f, "home");
        assert_false(D.conv.private_memory);
        free(f.data);
        free(g.data);
        erig_close(&s);
        erig_close(&r);
}

static void put_u64(uint8_t *p, uint64_t v) {
        for (size_t i = 0; i < 8; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

/* All checksums of a changed file anew, as anybody can. */
static void reseal(struct file *f, const struct xfer_header *h) {
        static struct xfer_sum sum;
        static const uint8_t key[XFER_KEY_SIZE];
        size_t at = XFER_HEADER_SIZE, n = (size_t)xfer_transcript_size(h);

        put_u64(f->data + XFER_HEADER_SIZE - 8, hash64(f->data, XFER_HEADER_SIZE - 8, 0));
        put_u64(f->data + at + n, hash64(f->data + at, n, 0));
        at += n + 8;
        for (uint32_t i = 0; i < h->n_blocks; i++, at += h->block_size + 8)
                put_u64(f->data + at + h->block_size,
                        hash64(f->data + at, (size_t)h->block_size, 0));
        xfer_sum_init(&sum, key);
        xfer_sum_update(&sum, f->data, at);
        xfer_sum_final(&sum, f->data + at);
}

/* Other rules of computing, although the weights are the same: none of the memory is taken. */
static void test_other_rules(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct xfer_header h;
        struct erig r, s;
        struct file f;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, NULL);
        f = export(&r, c, false);
        erig_say(&r, c, "Where do they live?", 24, &A);
        assert_int_equal(xfer_header_parse(f.data, f.size, f.size, &h, NULL), 0);
        assert_true(h.n_blocks > 0);
        put_u64(f.data + 24, h.model.rules + 1);
        reseal(&f, &h);
        erig_open(&s, &o);
        d = import_good(&s, &f, NULL);
        assert_int_equal(D.conv.residency, ENGINE_COLD);
        assert_int_equal(D.conv.disk_size, 0);
        assert_false(D.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 24, &B);
        assert_int_equal(B.n_computed, B.n_prompt);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&s);
        erig_close(&r);
}

static void append_raw(struct erig *r, uint64_t c, const char *text) {
        struct engine_request q = erig_say_request(c, text, 0);

        q.input = ENGINE_INPUT_RAW;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
}

/* A record of a block that was rewound into, and gone on with differently, while the disk takes
 * nothing new: it is of other tokens, and does not go out as the memory of these. */
static void test_stale_record(void **state) {
        static const char one[] =
                "The seven birds sing in the garden near the river all night, and "
                "the old king listens to them with his dog and his seven cats.";
        static const char two[] =
                " of all the letters that she wrote to her friends in the winter, "
                "Ada kept only one, and she read it again when the snow was gone.";
        struct engine_options o = erig_options(64 << 20);
        struct engine_request back = {
                .verb = ENGINE_REWIND, .at_turn = ENGINE_UNSET, .at_position = 10};
        struct erig r;
        struct file f;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        /* Room for one record, not for a second one, but for a file. */
        o.disk_limit = erig_stat(&r, "block_bytes") * 3 / 2;
        erig_close(&r);
        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        append_raw(&r, c, one);
        while (erig_stat(&r, "writebehind_blocks") == 0)
                ;
        back.conv_id = c;
        assert_int_equal(erig_do(&r, &back, &A), ENGINE_CONV);
        append_raw(&r, c, two);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_true(erig_stat(&r, "spill_refused") > 0);
        f = export(&r, c, false);
        assert_int_equal(D.n_memory, 0);
        erig_say(&r, c, "What did she read?", 16, &A);
        r.o.disk_limit = 0;
        erig_restart(&r, true);
        d = import_good(&r, &f, NULL);
        erig_say(&r, d, "What did she read?", 16, &B);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&r);
}

/* A record that cannot be read ends the memory in the file, and nothing else. */
static void test_damaged_record(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct file f, g;
        struct erig r;
        uint64_t c, d;
        char cmd[256];
        uint32_t n;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        f = export(&r, c, false);
        n = D.n_memory;
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        /* In the middle of the only file. */
        snprintf(cmd, sizeof(cmd),
                "for f in %s/spill/*.kv; do dd if=/dev/zero of=$f bs=1000 count=4 conv=notrunc "
                "seek=$(($(stat -c %%s $f) / 2000)) status=none; done",
                r.dir);
        assert_int_equal(system(cmd), 0);
        g = export(&r, c, false);
        assert_true(D.n_memory > 0 && D.n_memory < n);
        assert_true(g.size < f.size);
        assert_true(r.n_logs > 0);
        d = import_good(&r, &g, "rest");
        assert_false(D.conv.private_memory);
        same_transcript(&r, c, d);
        erig_say(&r, d, "Where do they live?", 16, &A);
        d = import_good(&r, &f, "whole");
        erig_say(&r, d, "Where do they live?", 16, &B);
        answer_same(&A, &B);
        free(f.data);
        free(g.data);
        erig_close(&r);
}

static void check_refused(struct erig *r, const void *data, size_t n) {
        assert_int_equal(import(r, data, n, "damaged", &A), ENGINE_ERROR);
        if (A.err.code != ERR_FORMAT && A.err.code != ERR_CORRUPT && A.err.code != ERR_UNSUPPORTED)
                fail_msg("code %d: %s", (int)A.err.code, A.err.msg);
}

static void test_damage(void **state) {
        struct engine_options o = erig_options(64 << 20);
        unsigned seed = 11;
        struct erig r;
        struct file f;
        uint64_t c, records;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, NULL);
        f = export(&r, c, false);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        records = erig_stat(&r, "spill_records");
        for (size_t i = 0; i < ERIG_ROUNDS(200, 20); i++)
                check_refused(&r, f.data, f.size * i / ERIG_ROUNDS(200, 20));
        check_refused(&r, f.data, f.size - 1);
        for (size_t i = 0; i < ERIG_ROUNDS(600u, 60u); i++) {
                /* The header whole, the rest here and there, the MAC apart. */
                size_t at = i < XFER_HEADER_SIZE ? i : (size_t)rand_r(&seed) % (f.size - 16);
                uint8_t bit = (uint8_t)(1u << (i % 8));

                f.data[at] ^= bit;
                check_refused(&r, f.data, f.size);
                f.data[at] ^= bit;
        }
        assert_false(exists(&r, "damaged"));
        assert_int_equal(erig_stat(&r, "spill_records"), records);
        /* A wrong MAC says that it isn't ours, no more. */
        f.data[f.size - 3] ^= 1;
        import_good(&r, &f, "foreign");
        assert_true(D.conv.private_memory);
        free(f.data);
        erig_close(&r);
}

/* A file of an older confab: its transcript and memory come back, as anybody's would. */
static void test_version_1(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static struct answer good;
        struct xfer_header h;
        struct erig r;
        struct file f;
        uint64_t c, d;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        f = export(&r, c, false);
        assert_int_equal(xfer_header_parse(f.data, f.size, f.size, &h, NULL), 0);
        assert_int_equal(f.data[4], XFER_VERSION);
        f.data[4] = 1;
        reseal(&f, &h);
        d = import_good(&r, &f, "old");
        assert_true(D.conv.private_memory);
        assert_true(D.conv.residency == ENGINE_SPILLED || D.conv.residency == ENGINE_RESIDENT);
        erig_say(&r, c, "Where do they live?", 24, &good);
        erig_say(&r, d, "Where do they live?", 24, &A);
        answer_same(&A, &good);
        f.data[4] = 0;
        reseal(&f, &h);
        check_refused(&r, f.data, f.size);
        f.data[4] = XFER_VERSION + 1;
        reseal(&f, &h);
        check_refused(&r, f.data, f.size);
        free(f.data);
        erig_close(&r);
}

/* Memory that was made to harm: logits become NaN, and nothing else becomes anything. */
static void poison(enum engine_kv kv_type) {
        static const uint16_t values[] = {0x7e00, 0x7c00, 0xfc00, 0x7bff, 0xffff};
        struct engine_options o = erig_options(64 << 20);
        static struct answer good[2];
        struct engine_request q[2], back = {.verb = ENGINE_REWIND,
                                            .at_turn = ENGINE_UNSET,
                                            .at_position = ENGINE_UNSET,
                                            .drop_turns = 2};
        struct xfer_header h;
        struct erig r;
        struct file f;
        uint64_t c, first, d;

        o.kv_type = kv_type;
        erig_open(&r, &o);
        c = dialogue(&r, NULL);
        f = export(&r, c, false);
        assert_int_equal(xfer_header_parse(f.data, f.size, f.size, &h, NULL), 0);
        first = XFER_HEADER_SIZE + xfer_transcript_size(&h) + 8;
        erig_say(&r, c, "Where do they live?", 24, &A);
        back.conv_id = c;
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
                for (uint32_t i = 0; i < h.n_blocks; i++) {
                        uint16_t *p = (uint16_t *)(void *)(f.data + first + i * (h.block_size + 8));

                        /* All of it, or one number in a hundred. */
                        for (size_t j = 0; j < h.block_size / 2; j += k % 2 ? 100 : 1)
                                memcpy(&p[j], &values[k], 2);
                }
                reseal(&f, &h);
                d = import_good(&r, &f, NULL);
                assert_true(D.conv.private_memory);
                /* In one batch with a healthy one. */
                q[0] = erig_say_request(d, "Where do they live?", 24);
                q[1] = erig_say_request(c, "Where do they live?", 24);
                if (k % 2)
                        q[0].sampling = (struct sampling){
                                .has = SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_MIN_P,
                                .temperature = 1,
                                .min_p = 0.1f};
                q[0].n_logprobs = 3;
                assert_int_equal(erig_do(&r, &back, &B), ENGINE_CONV);
                erig_do_all(&r, q, good, 2);
                assert_int_equal(good[1].kind, ENGINE_DONE);
                answer_same(&A, &good[1]);
                assert_true(good[0].kind == ENGINE_DONE || good[0].kind == ENGINE_ERROR);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, NULL), ENGINE_CONV);
                erig_say(&r, d, "Hello", 3, &B);
        }
        free(f.data);
        erig_close(&r);
}

static void test_poison(void **state) {
        (void)state;
        erig_need_model();
        for (enum engine_kv k = ENGINE_KV_F16; k <= ENGINE_KV_Q8_0; k++)
                poison(k);
}

static void test_refusals(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = "x", .fd = -1};
        struct engine_request p = {.verb = ENGINE_EXPORT, .uid = 5};
        struct erig r;
        struct file f;
        struct rlimit old, limit;
        char path[128];
        uint64_t c;

        (void)state;
        erig_need_model();
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        f = export(&r, c, false);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        /* What could change or block. */
        q.fd = memfd(f.data, f.size, F_SEAL_WRITE | F_SEAL_GROW);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        close(q.fd);
        snprintf(path, sizeof(path), "%s/file", r.dir);
        assert_int_equal(file_replace(path, f.data, f.size, 0600, NULL), 0);
        q.fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        close(q.fd);
        assert_int_equal(import(&r, f.data, f.size, "origin", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_EXISTS);
        assert_int_equal(import(&r, f.data, f.size, "12", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        /* Another user's conversation is not there. */
        p.conv_id = c;
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        /* A disk that fails in the middle. */
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        signal(SIGXFSZ, SIG_IGN);
        limit = old;
        limit.rlim_cur = f.size / 2;
        p.uid = 0;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(A.err.code, ERR_SYS);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_EXPORTED);
        assert_int_equal(A.size, f.size);
        r.o.max_conversations_per_uid = 1;
        r.o.disk_floor = UINT64_MAX / 2;
        erig_restart(&r, true);
        assert_int_equal(import(&r, f.data, f.size, "x", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        r.o.disk_floor = 0;
        r.o.disk_limit = f.size - 1;
        erig_restart(&r, true);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        r.o.disk_limit = 0;
        r.o.disk_floor = UINT64_MAX / 2;
        /* Without room on disk the transcript comes alone. */
        r.o.max_conversations_per_uid = 9;
        erig_restart(&r, true);
        import_good(&r, &f, "x");
        assert_int_equal(D.conv.residency, ENGINE_COLD);
        r.o.context = 64;
        erig_restart(&r, true);
        assert_int_equal(import(&r, f.data, f.size, "y", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        free(f.data);
        erig_close(&r);
}

/* While a transfer is under way the daemon stops, or somebody cancels it. */
static void test_stop(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request p = {.verb = ENGINE_EXPORT};
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = "x"};
        struct erig r;
        struct file f;
        uint64_t c;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = dialogue(&r, "origin");
        f = export(&r, c, false);
        p.conv_id = c;
        for (int i = 0; i < 4; i++) {
                q.fd = memfd(f.data, f.size, SEALS);
                erig_send(&r, &p, &A);
                erig_send(&r, &q, &B);
                close(q.fd); /* the engine has its own */
                if (i % 2) {
                        engine_cancel(r.en, p.handle);
                        engine_cancel(r.en, q.handle);
                        erig_wait(&r, &A);
                        erig_wait(&r, &B);
                } else {
                        erig_stop(&r, true);
                        assert_true(A.final && B.final);
                        erig_start(&r);
                }
                if (exists(&r, "x"))
                        assert_int_equal(
                                erig_simple(&r, ENGINE_CLOSE, D.conv.id, NULL), ENGINE_EMPTY);
        }
        answer_reset(&A);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        erig_check_empty(&r);
        free(f.data);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_without_memory),
                cmocka_unit_test(test_other_kv),
                cmocka_unit_test(test_other_rules),
                cmocka_unit_test(test_stale_record),
                cmocka_unit_test(test_foreign),
                cmocka_unit_test(test_damaged_record),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_version_1),
                cmocka_unit_test(test_poison),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
