/* SPDX-License-Identifier: MIT */
/*
 * Export and import: what is damaged or made to harm leaves nothing behind, or harms only who
 * imports it; what is refused is refused whole.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "transfer-rig.h"
#include "util/test.h"

static struct answer A, B;

/* A record that cannot be read ends the memory in the file, and nothing else. */
static void test_damaged_record(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct transfer_file f, g;
        struct erig r;
        uint64_t c, d;
        char cmd[256];
        uint32_t n;

        c = transfer_open(&r, &o, "origin", &f);
        n = transfer_last.n_memory;
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        /* In the middle of the only file. */
        snprintf(cmd, sizeof(cmd),
                "for f in %s/spill/*.kv; do dd if=/dev/zero of=$f bs=1000 count=4 conv=notrunc "
                "seek=$(($(stat -c %%s $f) / 2000)) status=none; done",
                r.dir);
        assert_int_equal(system(cmd), 0);
        g = transfer_export(&r, c, false);
        assert_true(transfer_last.n_memory > 0 && transfer_last.n_memory < n);
        assert_true(g.size < f.size);
        assert_true(r.n_logs > 0);
        d = transfer_import_good(&r, &g, "rest");
        assert_false(transfer_last.conv.private_memory);
        transfer_same_transcript(&r, c, d);
        erig_say(&r, d, "Where do they live?", 16, &A);
        d = transfer_import_good(&r, &f, "whole");
        erig_say(&r, d, "Where do they live?", 16, &B);
        answer_same(&A, &B);
        free(f.data);
        free(g.data);
        erig_close(&r);
}

static void check_refused(struct erig *r, const void *data, size_t n) {
        assert_int_equal(transfer_import(r, data, n, "damaged", &A), ENGINE_ERROR);
        if (A.err.code != ERR_FORMAT && A.err.code != ERR_CORRUPT && A.err.code != ERR_UNSUPPORTED)
                fail_msg("code %d: %s", (int)A.err.code, A.err.msg);
}

static void test_damage(void **state) {
        struct engine_options o = erig_options(64 << 20);
        unsigned seed = 11;
        struct erig r;
        struct transfer_file f;
        uint64_t c, records;

        c = transfer_open(&r, &o, NULL, &f);
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
        assert_false(transfer_exists(&r, "damaged"));
        assert_int_equal(erig_stat(&r, "spill_records"), records);
        /* A wrong MAC says that it isn't ours, no more. */
        f.data[f.size - 3] ^= 1;
        transfer_import_good(&r, &f, "foreign");
        assert_true(transfer_last.conv.private_memory);
        free(f.data);
        erig_close(&r);
}

/* A file of an older confab: its transcript and memory come back, as anybody's would. */
static void test_version_1(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static struct answer good;
        struct xfer_header h;
        struct erig r;
        struct transfer_file f;
        uint64_t c, d;

        c = transfer_open(&r, &o, "origin", &f);
        h = transfer_header(&f);
        assert_int_equal(f.data[4], XFER_VERSION_PLAIN);
        f.data[4] = 1;
        transfer_reseal(&f, &h);
        d = transfer_import_good(&r, &f, "old");
        assert_true(transfer_last.conv.private_memory);
        assert_true(transfer_last.conv.residency == ENGINE_SPILLED ||
                    transfer_last.conv.residency == ENGINE_RESIDENT);
        erig_say(&r, c, "Where do they live?", 24, &good);
        erig_say(&r, d, "Where do they live?", 24, &A);
        answer_same(&A, &good);
        f.data[4] = 0;
        transfer_reseal(&f, &h);
        check_refused(&r, f.data, f.size);
        f.data[4] = XFER_VERSION + 1;
        transfer_reseal(&f, &h);
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
        struct transfer_file f;
        uint64_t c, first, d;

        o.kv_type = kv_type;
        c = transfer_open(&r, &o, NULL, &f);
        h = transfer_header(&f);
        first = XFER_HEADER_SIZE + xfer_transcript_size(&h) + 8;
        erig_say(&r, c, "Where do they live?", 24, &A);
        back.conv_id = c;
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
                for (uint32_t i = 0; i < xfer_n_cells(&h); i++) {
                        uint16_t *p = (uint16_t *)(void *)(f.data + first +
                                                           i * (h.shape.size[SEQ_ALL] + 8));

                        /* All of it, or one number in a hundred. */
                        for (size_t j = 0; j < h.shape.size[SEQ_ALL] / 2; j += k % 2 ? 100 : 1)
                                memcpy(&p[j], &values[k], 2);
                }
                transfer_reseal(&f, &h);
                d = transfer_import_good(&r, &f, NULL);
                assert_true(transfer_last.conv.private_memory);
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
        for (enum engine_kv k = ENGINE_KV_F16; k <= ENGINE_KV_Q8_0; k++)
                poison(k);
}

static void test_refusals(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = "x", .fd = -1};
        struct engine_request p = {.verb = ENGINE_EXPORT, .owner = 5};
        struct erig r;
        struct transfer_file f;
        struct rlimit old, limit;
        char path[128];
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        c = transfer_open(&r, &o, "origin", &f);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        /* What could change or block. */
        q.fd = transfer_memfd(f.data, f.size, F_SEAL_WRITE | F_SEAL_GROW);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        close(q.fd);
        snprintf(path, sizeof(path), "%s/file", r.dir);
        assert_int_equal(file_replace(path, f.data, f.size, 0600, NULL), 0);
        q.fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        close(q.fd);
        assert_int_equal(transfer_import(&r, f.data, f.size, "origin", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_EXISTS);
        assert_int_equal(transfer_import(&r, f.data, f.size, "12", &A), ENGINE_ERROR);
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
        p.owner = 0;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(A.err.code, ERR_SYS);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_EXPORTED);
        assert_int_equal(A.size, f.size);
        r.o.max_conversations_per_owner = 1;
        r.o.disk_floor = UINT64_MAX / 2;
        erig_restart(&r, true);
        assert_int_equal(transfer_import(&r, f.data, f.size, "x", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        r.o.disk_floor = 0;
        r.o.disk_limit = f.size - 1;
        erig_restart(&r, true);
        assert_int_equal(erig_do(&r, &p, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        /* Those that are over do not count. */
        r.o.disk_limit = 0;
        erig_restart(&r, true);
        r.o.disk_limit = erig_stat(&r, "spill_disk_bytes") + f.size + f.size / 2;
        erig_restart(&r, true);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(erig_do(&r, &p, &A), ENGINE_EXPORTED);
                close(A.fd);
                A.fd = 0;
        }
        r.o.disk_limit = 0;
        r.o.disk_floor = UINT64_MAX / 2;
        /* Without room on disk the transcript comes alone. */
        r.o.max_conversations_per_owner = 9;
        erig_restart(&r, true);
        transfer_import_good(&r, &f, "x");
        assert_int_equal(transfer_last.conv.residency, ENGINE_COLD);
        r.o.context = 64;
        erig_restart(&r, true);
        assert_int_equal(transfer_import(&r, f.data, f.size, "y", &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        free(f.data);
        erig_close(&r);
}

static enum engine_event_kind append(
        struct erig *r, struct engine_file *file, const void *data, size_t n) {
        struct engine_request q = erig_request(ENGINE_WRITE_FILE, 0);

        q.file = file;
        q.text = data;
        q.text_size = n;
        return erig_do(r, &q, &A);
}

static enum engine_event_kind read_at(
        struct erig *r, struct engine_file *file, uint64_t offset, size_t n) {
        struct engine_request q = erig_request(ENGINE_READ_FILE, 0);

        q.file = file;
        q.offset = offset;
        q.n_bytes = n;
        return erig_do(r, &q, &A);
}

/* An export is read, and an import written, in pieces. What is on disk counts until it is forgotten, and
 * no longer. */
static void test_in_pieces(void **state) {
        enum { PIECE = 5000 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_file from, to = ENGINE_FILE_NULL, other = ENGINE_FILE_NULL;
        struct engine_request q = erig_request(ENGINE_IMPORT, 0);
        static uint8_t zeros[ENGINE_MAX_BYTES + 1], piece[PIECE];
        struct transfer_file f;
        struct erig r;
        uint64_t c;

        c = transfer_open(&r, &o, "origin", &f);
        /* Room for the file, and not for a second one. */
        r.o.disk_limit = erig_stat(&r, "spill_disk_bytes") + 3 * f.size + f.size / 2;
        r.o.max_requests_per_owner = 1;
        erig_restart(&r, true);
        assert_int_equal(erig_simple(&r, ENGINE_EXPORT, c, &A), ENGINE_EXPORTED);
        engine_file_begin(r.en, &from, A.fd, A.size);
        A.fd = 0;
        for (uint64_t at = 0; at < f.size; at += PIECE) {
                size_t n = MIN((size_t)PIECE, (size_t)(f.size - at));

                if (read_at(&r, &from, at, n) != ENGINE_BYTES)
                        fail_msg("%s", A.err.msg);
                assert_int_equal(A.size, n);
                memcpy(piece, A.text, n);
                if (append(&r, &to, piece, n) != ENGINE_EMPTY)
                        fail_msg("%s", A.err.msg);
        }
        assert_int_equal(to.size, f.size);
        for (uint64_t at = 0; at < f.size; at += PIECE) {
                size_t n = MIN((size_t)PIECE, (size_t)(f.size - at));

                assert_int_equal(read_at(&r, &to, at, n), ENGINE_BYTES);
                assert_memory_equal(A.text, f.data + at, n);
        }
        assert_int_equal(read_at(&r, &to, f.size - 1, 2), ENGINE_ERROR);
        assert_int_equal(read_at(&r, &to, f.size + 1, 1), ENGINE_ERROR);
        assert_int_equal(read_at(&r, &to, UINT64_MAX, 1), ENGINE_ERROR);
        assert_int_equal(read_at(&r, &to, 0, 0), ENGINE_ERROR);
        assert_int_equal(append(&r, &to, zeros, sizeof(zeros)), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        assert_int_equal(to.size, f.size);
        q.fd = to.fd;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR); /* not sealed */
        assert_int_equal(A.err.code, ERR_INVALID);
        q.own_file = true;
        if (erig_do(&r, &q, &A) != ENGINE_CONV)
                fail_msg("%s", A.err.msg);
        assert_false(A.conv.private_memory);
        transfer_same_transcript(&r, c, A.conv.id);
        erig_simple(&r, ENGINE_CLOSE, A.conv.id, &A);
        /* Both count. */
        while (append(&r, &other, f.data, MIN(f.size, (size_t)PIECE)) == ENGINE_EMPTY)
                assert_true(other.size < 2 * f.size);
        assert_int_equal(A.err.code, ERR_LIMIT);
        close(engine_file_end(r.en, &from));
        assert_int_equal(append(&r, &other, f.data, PIECE), ENGINE_EMPTY);
        close(engine_file_end(r.en, &other));
        close(engine_file_end(r.en, &to));
        assert_int_equal(engine_file_end(r.en, &other), -1);
        free(f.data);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_damaged_record),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_version_1),
                cmocka_unit_test(test_poison),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_in_pieces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
