/* SPDX-License-Identifier: MIT */
/*
 * Export and import of memory in classes, with small models that have windows, states, or both. What
 * comes back goes on bit for bit as the original does.
 */
#include <stdlib.h>
#include <unistd.h>

#include "util/tiny-model.h"
#include "transfer-rig.h"
#include "util/test.h"

static struct answer A, B;

/* An engine with a model of this architecture. */
static void open_arch(struct erig *r, struct erig *home, const char *name, char path[128]) {
        struct engine_options o = erig_options(64 << 20);

        if (!home) {
                snprintf(path, 128, "/tmp/confab-transfer-%d.gguf", (int)getpid());
                assert_int_equal(tiny_model_write_arch(path, name), 0);
        }
        o.model_path = path;
        erig_open(r, &o);
}

static uint64_t talk(struct erig *r, const char *name) {
        uint64_t c = erig_new(r, name, "Be kind.");

        erig_say(r, c, "Hello, my name is Ada, and this is a cat.", 9, &A);
        erig_say(r, c, "Say it.", 7, &A);
        return c;
}

/* Memory of the whole conversation, but for what its last reply ended with. */
static void expect_whole(const struct xfer_header *h, const struct answer *conv) {
        assert_true(xfer_has_classes(h));
        assert_true(h->n_memory_tokens > 0);
        assert_true(h->n_memory_tokens + 1 >= conv->conv.n_tokens);
        assert_true(xfer_n_cells(h) > 0);
}

static void round_trip(const char *name) {
        struct transfer_file f, g;
        struct xfer_header h;
        struct erig r, s;
        char path[128];
        uint64_t c, d;

        print_message("%s\n", name);
        open_arch(&r, NULL, name, path);
        c = talk(&r, "origin");
        f = transfer_export(&r, c, false);
        assert_int_equal(f.data[4], 5);
        h = transfer_header(&f);
        erig_get(&r, c, &A);
        expect_whole(&h, &A);
        assert_int_equal(transfer_last.n_memory, h.n_memory_tokens);
        /* From disk the same bytes come. */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        g = transfer_export(&r, c, false);
        assert_int_equal(f.size, g.size);
        assert_memory_equal(f.data, g.data, f.size);
        free(g.data);
        d = transfer_import_good(&r, &f, "copy");
        assert_int_equal(transfer_last.conv.residency, ENGINE_SPILLED);
        assert_false(transfer_last.conv.private_memory);
        transfer_same_transcript(&r, c, d);
        erig_restart(&r, true);
        erig_say(&r, d, "Why?", 8, &B);
        assert_true(B.n_disk > 0);
        assert_true(B.n_computed + h.n_memory_tokens <= B.n_prompt + 1);
        erig_say(&r, c, "Why?", 8, &A);
        answer_same(&A, &B);
        erig_check_register(&r);
        /* Another daemon takes it as private memory, and computes the same. */
        open_arch(&s, &r, name, path);
        d = transfer_import_good(&s, &f, NULL);
        assert_true(transfer_last.conv.private_memory);
        erig_say(&s, d, "Why?", 8, &B);
        assert_true(B.n_disk > 0);
        answer_same(&A, &B);
        erig_check_register(&s);
        erig_close(&s);
        /* Only the text: all is computed again. */
        free(f.data);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_close(&r);
        unlink(path);
}

static void test_round_trip(void **state) {
        static const char *const names[] = {"mamba", "falcon-h1", "jamba", "gemma2", "lfm2"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                round_trip(names[i]);
}

static void test_without_memory(void **state) {
        struct transfer_file f;
        struct erig r;
        char path[128];
        uint64_t c, d;

        open_arch(&r, NULL, "falcon-h1", path);
        c = talk(&r, "origin");
        f = transfer_export(&r, c, true);
        assert_int_equal(transfer_last.n_memory, 0);
        assert_int_equal(xfer_n_cells(&(struct xfer_header[]){transfer_header(&f)}[0]), 0);
        d = transfer_import_good(&r, &f, "text");
        assert_int_equal(transfer_last.conv.residency, ENGINE_COLD);
        erig_say(&r, d, "Why?", 8, &B);
        erig_say(&r, c, "Why?", 8, &A);
        answer_same(&A, &B);
        free(f.data);
        erig_close(&r);
        unlink(path);
}

/* A state that is not what its checksum says: nothing is made. */
static void test_damage(void **state) {
        struct transfer_file f;
        struct xfer_header h;
        struct erig r;
        char path[128];

        open_arch(&r, NULL, "mamba", path);
        f = transfer_export(&r, talk(&r, "origin"), false);
        h = transfer_header(&f);
        f.data[f.size - XFER_TRAILER_SIZE - 8 - h.shape.size[SEQ_STATE] / 2] ^= 1;
        assert_int_equal(transfer_import(&r, f.data, f.size, "x", &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CORRUPT);
        assert_false(transfer_exists(&r, "x"));
        /* Under new checksums it is foreign memory, which is wrong. */
        transfer_reseal(&f, &h);
        (void)transfer_import_good(&r, &f, "x");
        assert_true(transfer_last.conv.private_memory);
        free(f.data);
        erig_close(&r);
        unlink(path);
}

/* Says @text, and goes back into it; the export of what is left. */
static struct transfer_file cut_export(struct erig *r, const char *text) {
        struct engine_request back = {
                .verb = ENGINE_REWIND, .at_turn = ENGINE_UNSET, .at_position = 20};

        back.conv_id = erig_new(r, NULL, NULL);
        erig_append_raw(r, back.conv_id, text);
        assert_int_equal(erig_do(r, &back, &A), ENGINE_CONV);
        return transfer_export(r, back.conv_id, false);
}

/* Nothing of tokens that are not the conversation's any more goes out: where they were in the last
 * block, there are zeros. */
static void test_blank_end(void **state) {
        struct transfer_file f, g;
        struct xfer_header h;
        struct erig r, s;
        char path[128];
        size_t at;

        open_arch(&r, NULL, "gemma2", path);
        f = cut_export(&r, "The seven birds sing all night.");
        open_arch(&s, &r, "gemma2", path);
        g = cut_export(&s, "The seven birds sing in a tree.");
        h = transfer_header(&f);
        assert_int_equal(h.n_memory_tokens, 20);
        assert_int_equal(f.size, g.size);
        at = XFER_HEADER_SIZE + (size_t)xfer_transcript_size(&h) + 8;
        assert_memory_equal(f.data + at, g.data + at, f.size - at - XFER_TRAILER_SIZE);
        free(f.data);
        free(g.data);
        erig_close(&s);
        erig_close(&r);
        unlink(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_without_memory),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_blank_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
