/* SPDX-License-Identifier: MIT */
/*
 * Export and import: what comes back is the same conversation, bit for bit, and memory that is not
 * our own stays with who brought it. (Files that are damaged or made to harm: test-transfer-damage.c.)
 */
#include <stdlib.h>
#include <unistd.h>

#include "transfer-rig.h"
#include "util/test.h"

static struct answer A, B, C;

static void round_trip(enum engine_kv kv_type) {
        struct engine_options o = erig_options(64 << 20);
        struct transfer_file f, g;
        struct erig r;
        uint64_t c, d, bt;

        o.kv_type = kv_type;
        erig_open(&r, &o);
        c = transfer_dialogue(&r, "origin");
        bt = erig_stat(&r, "block_tokens");
        f = transfer_export(&r, c, false);
        erig_get(&r, c, &A);
        assert_true(A.conv.n_tokens > 3 * bt);
        assert_int_equal(transfer_last.n_memory % bt, 0);
        assert_true(transfer_last.n_memory + bt >= A.conv.n_tokens);
        /* From disk the same bytes come. */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        g = transfer_export(&r, c, false);
        assert_int_equal(f.size, g.size);
        assert_memory_equal(f.data, g.data, f.size);
        free(g.data);
        /* Its own name is taken, so it gets another one. */
        d = transfer_import_good(&r, &f, NULL);
        assert_string_not_equal(transfer_last.name, "origin");
        assert_int_equal(transfer_last.conv.residency, ENGINE_SPILLED);
        assert_true(transfer_last.conv.disk_size > 0);
        assert_false(transfer_last.conv.private_memory);
        transfer_same_transcript(&r, c, d);
        erig_say(&r, c, "Where do they live?", 24, &A);
        erig_say(&r, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_int_equal(B.n_ram + B.n_disk + B.n_shared >= bt, true);
        /* After a restart, under a name of its own. */
        d = transfer_import_good(&r, &f, "copy");
        assert_string_equal(transfer_last.name, "copy");
        erig_restart(&r, true);
        erig_say(&r, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_true(B.n_disk >= bt);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        d = transfer_import_good(&r, &f, NULL);
        assert_string_equal(transfer_last.name, "origin");
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        free(f.data);
        erig_close(&r);
}

static void test_round_trip(void **state) {
        for (enum engine_kv k = ENGINE_KV_F16; k <= ENGINE_KV_Q8_0; k++)
                round_trip(k);
}

static void test_without_memory(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct transfer_file f;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = erig_new(&r, "empty", NULL);
        f = transfer_export(&r, c, false);
        d = transfer_import_good(&r, &f, "empty too");
        transfer_same_transcript(&r, c, d);
        erig_say(&r, d, "Hello", 4, &A);
        free(f.data);
        c = transfer_dialogue(&r, NULL);
        f = transfer_export(&r, c, true);
        assert_int_equal(transfer_last.n_memory, 0);
        d = transfer_import_good(&r, &f, NULL);
        assert_int_equal(transfer_last.conv.residency, ENGINE_COLD);
        transfer_same_transcript(&r, c, d);
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
        struct transfer_file f;
        uint64_t d;

        transfer_open(&r, &o, NULL, &f);
        o.kv_type = ENGINE_KV_F32;
        erig_open(&s, &o);
        d = transfer_import_good(&s, &f, "from f16");
        assert_int_equal(transfer_last.conv.residency, ENGINE_COLD);
        assert_false(transfer_last.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 24, &A);
        assert_int_equal(A.n_computed, A.n_prompt);
        /* As a conversation with these tokens says there. */
        erig_get(&s, d, &C);
        free(f.data);
        f = transfer_export(&s, d, false);
        assert_true(transfer_last.n_memory > 0);
        d = transfer_import_good(&s, &f, "f32 again");
        erig_say(&s, d, "And what do they eat?", 16, &A);
        assert_true(A.n_disk + A.n_shared > 0);
        free(f.data);
        erig_close(&s);
        erig_close(&r);
}

/* Made by another daemon: only its owner sees this memory. */
static void test_foreign(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_FORK, 0);
        struct engine_request p = {
                .verb = ENGINE_PUBLISH, .at_turn = ENGINE_UNSET, .admin = true, .publish = true};
        struct erig r, s;
        struct transfer_file f, g;
        uint64_t c, d;

        c = transfer_open(&r, &o, "origin", &f);
        erig_say(&r, c, "Where do they live?", 24, &A);
        erig_open(&s, &o);
        d = transfer_import_good(&s, &f, NULL);
        assert_true(transfer_last.conv.private_memory);
        assert_true(transfer_last.conv.disk_size > 0);
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
        d = transfer_dialogue(&s, "anew");
        assert_int_equal(erig_stat(&s, "tokens_reused_disk"), 0);
        erig_get(&s, d, &B);
        assert_false(B.conv.private_memory);
        assert_int_equal(erig_stat(&s, "tokens_reused_shared"), 0);
        /* Going out and in again makes it no better. */
        d = transfer_import_good(&s, &f, "once");
        g = transfer_export(&s, d, false);
        d = transfer_import_good(&s, &g, "twice");
        assert_true(transfer_last.conv.private_memory);
        free(g.data);
        g = transfer_export(&s, d, true);
        d = transfer_import_good(&s, &g, "as text");
        assert_false(transfer_last.conv.private_memory);
        /* When all of it is gone, what is computed instead is as good as any. */
        s.o.kv_type = ENGINE_KV_F32;
        erig_restart(&s, true);
        assert_true(transfer_exists(&s, "twice"));
        d = transfer_last.conv.id;
        assert_true(transfer_last.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 4, &B);
        assert_int_equal(erig_simple(&s, ENGINE_EVICT, d, &B), ENGINE_CONV);
        assert_false(B.conv.private_memory);
        assert_true(B.conv.disk_size > 0);
        /* At home it still is as good as our own. */
        d = transfer_import_good(&r, &f, "home");
        assert_false(transfer_last.conv.private_memory);
        free(f.data);
        free(g.data);
        erig_close(&s);
        erig_close(&r);
}

/* Nor is such memory offered while it is in RAM. */
static void test_private_in_ram(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r, s;
        struct transfer_file f;
        uint64_t d;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        f = transfer_export(&r, transfer_dialogue(&r, "origin"), false);
        erig_close(&r);
        erig_open(&s, &o);
        d = transfer_import_good(&s, &f, NULL);
        assert_true(transfer_last.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 24, &A);
        assert_true(A.n_disk > 0);
        d = transfer_dialogue(&s, "anew");
        erig_say(&s, d, "Where do they live?", 24, &B);
        answer_same(&A, &B);
        assert_int_equal(erig_stat(&s, "tokens_reused_shared"), 0);
        assert_int_equal(erig_stat(&s, "tokens_reused_disk"), A.n_disk);
        free(f.data);
        erig_close(&s);
}

/* Other rules of computing, although the weights are the same: none of the memory is taken. */
static void test_other_rules(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct xfer_header h;
        struct erig r, s;
        struct transfer_file f;
        uint64_t c, d;

        c = transfer_open(&r, &o, NULL, &f);
        erig_say(&r, c, "Where do they live?", 24, &A);
        h = transfer_header(&f);
        assert_true(h.n_memory_tokens > 0);
        transfer_put_u64(f.data + 24, h.model.rules + 1);
        transfer_reseal(&f, &h);
        erig_open(&s, &o);
        d = transfer_import_good(&s, &f, NULL);
        assert_int_equal(transfer_last.conv.residency, ENGINE_COLD);
        assert_int_equal(transfer_last.conv.disk_size, 0);
        assert_false(transfer_last.conv.private_memory);
        erig_say(&s, d, "Where do they live?", 24, &B);
        assert_int_equal(B.n_computed, B.n_prompt);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&s);
        erig_close(&r);
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
        struct transfer_file f;
        uint64_t c, d;

        erig_open(&r, &o);
        /* Room for one record, not for a second one, but for a file. */
        o.disk_limit = erig_stat(&r, "block_bytes") * 3 / 2;
        erig_close(&r);
        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_raw(&r, c, one);
        erig_wait_stat(&r, "writebehind_blocks", 1);
        back.conv_id = c;
        assert_int_equal(erig_do(&r, &back, &A), ENGINE_CONV);
        erig_append_raw(&r, c, two);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_true(erig_stat(&r, "spill_refused") > 0);
        f = transfer_export(&r, c, false);
        assert_int_equal(transfer_last.n_memory, 0);
        erig_say(&r, c, "What did she read?", 16, &A);
        r.o.disk_limit = 0;
        erig_restart(&r, true);
        d = transfer_import_good(&r, &f, NULL);
        erig_say(&r, d, "What did she read?", 16, &B);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&r);
}

/* While a transfer is under way the daemon stops, or somebody cancels it. */
static void test_stop(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request p = {.verb = ENGINE_EXPORT};
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = "x"};
        struct erig r;
        struct transfer_file f;
        uint64_t c;

        c = transfer_open(&r, &o, "origin", &f);
        p.conv_id = c;
        for (int i = 0; i < 4; i++) {
                q.fd = transfer_memfd(f.data, f.size, TRANSFER_SEALS);
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
                if (transfer_exists(&r, "x"))
                        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, transfer_last.conv.id, NULL),
                                ENGINE_EMPTY);
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
                cmocka_unit_test(test_private_in_ram),
                cmocka_unit_test(test_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
