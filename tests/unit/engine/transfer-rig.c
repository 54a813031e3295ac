/* SPDX-License-Identifier: MIT */
#include "transfer-rig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "util/test.h"

struct answer transfer_last;

struct transfer_file transfer_export(struct erig *r, uint64_t conv, bool without_memory) {
        struct engine_request q = {
                .verb = ENGINE_EXPORT, .conv_id = conv, .without_memory = without_memory};
        struct transfer_file f;
        struct stat st;

        if (erig_do(r, &q, &transfer_last) != ENGINE_EXPORTED)
                fail_msg("export: %s", transfer_last.err.msg);
        assert_int_equal(fstat(transfer_last.fd, &st), 0);
        assert_int_equal(st.st_size, transfer_last.size);
        assert_int_equal(st.st_nlink, 0);
        assert_int_equal(fcntl(transfer_last.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        f.size = (size_t)transfer_last.size;
        f.data = malloc(f.size);
        assert_non_null(f.data);
        assert_int_equal(file_pread(transfer_last.fd, f.data, f.size, 0, NULL), 0);
        return f;
}

int transfer_memfd(const void *data, size_t n, int seals) {
        int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(file_pwrite(fd, data, n, 0, NULL), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

enum engine_event_kind transfer_import(
        struct erig *r, const void *data, size_t n, const char *name, struct answer *a) {
        struct engine_request q = {.verb = ENGINE_IMPORT, .name = name};
        enum engine_event_kind kind;

        q.fd = transfer_memfd(data, n, TRANSFER_SEALS);
        kind = erig_do(r, &q, a);
        close(q.fd);
        return kind;
}

uint64_t transfer_import_good(struct erig *r, const struct transfer_file *f, const char *name) {
        if (transfer_import(r, f->data, f->size, name, &transfer_last) != ENGINE_CONV)
                fail_msg("import: %s", transfer_last.err.msg);
        return transfer_last.conv.id;
}

void transfer_same_transcript(struct erig *r, uint64_t x, uint64_t y) {
        static struct answer a, b;

        erig_get(r, x, &a);
        erig_get(r, y, &b);
        assert_int_equal(a.conv.created_usec, b.conv.created_usec);
        assert_memory_equal(&a.conv.sampling, &b.conv.sampling, sizeof(a.conv.sampling));
        answer_same_history(&a, &b);
}

struct xfer_header transfer_header(const struct transfer_file *f) {
        struct xfer_header h;

        assert_int_equal(xfer_header_parse(f->data, f->size, f->size, &h, NULL), 0);
        return h;
}

uint64_t transfer_dialogue(struct erig *r, const char *name) {
        struct engine_request q = {.verb = ENGINE_OPEN,
                .name = name,
                .system = "You are a helpful assistant who knows all animals of the world.",
                .sampling = {.has = SAMPLING_TOP_K | SAMPLING_BIASES,
                        .top_k = 40,
                        .n_biases = 2,
                        .biases = {{5, -1.5f}, {7, 0.25f}}}};
        uint64_t c;

        assert_int_equal(erig_do(r, &q, &transfer_last), ENGINE_CONV);
        c = transfer_last.conv.id;
        erig_say(r, c, "Hello, my name is Ada. I have a cat, a dog, a bird and a fish.", 30,
                &transfer_last);
        erig_say(r, c, "What is my name, and which animals do I have in my house?", 30,
                &transfer_last);
        return c;
}

void transfer_put_u64(uint8_t *p, uint64_t v) {
        for (size_t i = 0; i < 8; i++)
                p[i] = (uint8_t)(v >> (8 * i));
}

void transfer_reseal(struct transfer_file *f, const struct xfer_header *h) {
        static struct xfer_sum sum;
        static const uint8_t key[XFER_KEY_SIZE];
        size_t at = XFER_HEADER_SIZE, n = (size_t)xfer_transcript_size(h);

        transfer_put_u64(f->data + XFER_HEADER_SIZE - 8, hash64(f->data, XFER_HEADER_SIZE - 8, 0));
        transfer_put_u64(f->data + at + n, hash64(f->data + at, n, 0));
        at += n + 8;
        for (uint32_t i = 0; i < xfer_n_cells(h); i++) {
                size_t size = h->shape.size[xfer_cell(h, i).class];

                transfer_put_u64(f->data + at + size, hash64(f->data + at, size, 0));
                at += size + 8;
        }
        xfer_sum_init(&sum, key);
        xfer_sum_update(&sum, f->data, at);
        xfer_sum_final(&sum, f->data + at);
}

bool transfer_exists(struct erig *r, const char *name) {
        struct engine_request q = {.verb = ENGINE_GET, .conv_name = name};

        if (erig_do(r, &q, &transfer_last) == ENGINE_CONV)
                return true;
        assert_int_equal(transfer_last.err.code, ERR_NOT_FOUND);
        return false;
}

uint64_t transfer_open(
        struct erig *r, const struct engine_options *o, const char *name, struct transfer_file *f) {
        uint64_t c;

        erig_open(r, o);
        c = transfer_dialogue(r, name);
        *f = transfer_export(r, c, false);
        return c;
}
