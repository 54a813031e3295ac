/* SPDX-License-Identifier: MIT */
/*
 * Export and import through the real daemon: an exported conversation can be imported, here and
 * elsewhere, with and without memory, and gives the same bits. A forged or damaged file is refused,
 * leaks no descriptor and stops nothing.
 */
#include "fixture.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

enum { N_TOKENS = 150, N_REPLY = 12 };

static void say_tokens(struct client *c, uint64_t id, unsigned seed, size_t n, struct reply *r) {
        if (client_say_drawn(c, id, seed, n, N_REPLY, r) != 0)
                fail_msg("%s", c->error.message);
}

/* Descriptors of the daemon. */
static size_t daemon_fds(const struct harness *h) {
        char path[64];
        size_t n = 0;
        DIR *d;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int)h->pid);
        d = opendir(path);
        assert_non_null(d);
        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

/* The whole export in memory, to be freed. */
static uint8_t *take_export(
        struct client *c, uint64_t id, bool without_memory, size_t *ret_size, uint32_t *ret_n) {
        uint64_t size;
        uint8_t *data;
        ssize_t n;
        int fd;

        if (client_export(c, id, without_memory, &fd, &size, ret_n) != 0)
                fail_msg("%s", c->error.message);
        data = malloc(size + 1);
        assert_non_null(data);
        n = pread(fd, data, size + 1, 0);
        assert_int_equal(n, size);
        close(fd);
        *ret_size = size;
        return data;
}

static int import_bytes(
        struct client *c, const void *data, size_t n, const char *name, struct conv *ret) {
        int fd = client_memfd(data, n), r = client_import(c, fd, name, ret);

        close(fd);
        return r;
}

static void make_talk(struct client *c, uint64_t *ret_id) {
        struct reply r;

        assert_int_equal(client_open(c, "origin", "You are brief.", ret_id), 0);
        say_tokens(c, *ret_id, 1, N_TOKENS, &r);
        reply_deinit(&r);
        assert_int_equal(
                client_say(c, &(struct say){.conv = *ret_id, .message = "Hi", .max_tokens = 8}, &r),
                0);
        reply_deinit(&r);
}

static void expect_same(struct client *c, const struct conv *a, uint64_t id) {
        struct conv b;

        assert_int_equal(client_get(c, id, true, true, &b), 0);
        assert_int_equal(a->n_tokens, b.n_tokens);
        assert_int_equal(a->n_turn_list, b.n_turn_list);
        assert_memory_equal(a->tokens, b.tokens, a->n_tokens * sizeof(int32_t));
        for (size_t i = 0; i < a->n_turn_list; i++) {
                assert_string_equal(a->texts[i], b.texts[i]);
                assert_int_equal(a->roles[i], b.roles[i]);
                assert_int_equal(a->finishes[i], b.finishes[i]);
        }
        conv_deinit(&b);
}

static void test_round_trip(void **state) {
        static const char *const kinds[] = {"--kv-type=f16", "--kv-type=f32"};
        struct harness *h = *state, other;
        uint8_t *data[2];
        size_t size[2];
        uint32_t n_memory[2];
        struct conv origin, v;
        struct reply want, r;
        struct client *c;
        uint64_t id;

        harness_start(h, NULL);
        c = harness_client(h);
        make_talk(c, &id);
        assert_int_equal(client_get(c, id, true, true, &origin), 0);
        for (int bare = 0; bare < 2; bare++)
                data[bare] = take_export(c, id, bare, &size[bare], &n_memory[bare]);
        assert_true(size[1] < size[0] && n_memory[1] == 0);
        assert_true(n_memory[0] > N_TOKENS && n_memory[0] <= origin.n_tokens);
        /* The name is taken here; another one is not. */
        assert_int_equal(import_bytes(c, data[0], size[0], "origin", &v), -1);
        assert_string_equal(c->error.code, "exists");
        assert_int_equal(import_bytes(c, data[0], size[0], "copy", &v), 0);
        assert_string_equal(v.name, "copy");
        /* It knows its own exports. */
        assert_true(v.id != id && !v.private_memory);
        expect_same(c, &origin, v.id);
        conv_deinit(&v);
        say_tokens(c, id, 2, 10, &want);
        client_free(c);
        harness_stop(h);

        /* Elsewhere, with the same rules and with others. */
        for (size_t k = 0; k < 2; k++) {
                assert_int_equal(harness_init(&other), 0);
                harness_start(&other, (const char *const[]){kinds[k], NULL});
                c = harness_client(&other);
                for (int bare = 0; bare < 2; bare++) {
                        if (import_bytes(c, data[bare], size[bare], NULL, &v) != 0)
                                fail_msg("%s", c->error.message);
                        expect_same(c, &origin, v.id);
                        assert_int_equal(v.private_memory, k == 0 && !bare);
                        say_tokens(c, v.id, 2, 10, &r);
                        if (k == 0) {
                                assert_true(reply_equal(&r, &want));
                                if (!bare)
                                        assert_true(r.n_computed <
                                                    10 + origin.n_tokens - n_memory[0] + 33);
                        }
                        if (bare || k == 1)
                                assert_int_equal(r.n_computed, r.n_prompt);
                        reply_deinit(&r);
                        /* Its memory must not help the next one. */
                        assert_int_equal(client_close(c, v.id), 0);
                        conv_deinit(&v);
                }
                client_free(c);
                harness_stop(&other);
                harness_deinit(&other);
        }
        free(data[0]);
        free(data[1]);
        conv_deinit(&origin);
        reply_deinit(&want);
}

/* Memory of unknown origin stays with its conversation and that one's forks. */
static void test_imported_is_private(void **state) {
        struct harness *h = *state, other;
        uint64_t origin, fresh;
        struct reply first, r;
        struct client *c;
        struct conv v, f;
        uint8_t *data;
        uint32_t n;
        size_t size;

        harness_start(h, NULL);
        c = harness_client(h);
        assert_int_equal(client_open(c, NULL, NULL, &origin), 0);
        say_tokens(c, origin, 3, N_TOKENS, &first);
        data = take_export(c, origin, false, &size, &n);
        client_free(c);
        harness_stop(h);
        assert_int_equal(harness_init(&other), 0);
        harness_start(&other, NULL);
        c = harness_client(&other);
        assert_int_equal(import_bytes(c, data, size, "in", &v), 0);
        assert_int_equal(client_warm(c, v.id, NULL), 0);
        assert_int_equal(client_open(c, NULL, NULL, &fresh), 0);
        say_tokens(c, fresh, 3, N_TOKENS, &r);
        assert_int_equal(r.n_computed, r.n_prompt);
        assert_true(reply_equal(&r, &first));
        reply_deinit(&r);
        assert_int_equal(client_fork(c, v.id, NULL, -1, &f), 0);
        say_tokens(c, f.id, 4, 10, &r);
        assert_true(r.n_computed < 10 + 33);
        reply_deinit(&r);
        reply_deinit(&first);
        /* Nor can it be published. */
        assert_int_equal(client_publish(c, v.id, -1, false, NULL), -1);
        conv_deinit(&f);
        conv_deinit(&v);
        free(data);
        client_free(c);
        harness_stop(&other);
        harness_deinit(&other);
}

/* Broken, cut short, or nothing like it. */
static void test_garbage(void **state) {
        struct harness *h = *state;
        unsigned n_refused = 0, n_taken = 0;
        struct conv origin, v;
        struct reply want, r;
        struct client *c;
        uint64_t id;
        uint8_t *data;
        size_t size, fds;
        uint32_t n;

        /* Write-behind would have a spill file open now and then: descriptors are counted below. */
        harness_start(h, FLAGS("--spill-delay=never"));
        c = harness_client(h);
        make_talk(c, &id);
        assert_int_equal(client_get(c, id, true, true, &origin), 0);
        data = take_export(c, id, false, &size, &n);
        say_tokens(c, id, 2, 10, &want);
        assert_int_equal(import_bytes(c, "", 0, NULL, &v), -1);
        fds = daemon_fds(h);
        assert_int_equal(import_bytes(c, "garbage", 7, NULL, &v), -1);
        assert_int_equal(client_import(c, -1, NULL, &v), -1);
        assert_string_equal(c->error.code, "invalid");
        /* Cut anywhere. */
        for (size_t at = 0; at < size; at += at < 200 ? 13 : size / 40)
                if (import_bytes(c, data, at, NULL, &v) == 0)
                        fail_msg("%zu of %zu bytes were taken", at, size);
        /* One bit wrong anywhere: refused, or it does not matter for what is said. */
        for (size_t at = 0; at < size; at += at < 300 ? 7 : size / 60) {
                data[at] ^= 0x20;
                if (import_bytes(c, data, size, NULL, &v) == 0) {
                        say_tokens(c, v.id, 2, 10, &r);
                        assert_true(reply_equal(&r, &want));
                        reply_deinit(&r);
                        assert_int_equal(client_close(c, v.id), 0);
                        conv_deinit(&v);
                        n_taken++;
                } else {
                        n_refused++;
                }
                data[at] ^= 0x20;
        }
        print_message("bits wrong: %u refused, %u without effect\n", n_refused, n_taken);
        assert_true(n_refused > 20);
        /* Longer than it says. */
        data = realloc(data, size + 4096);
        assert_non_null(data);
        memset(data + size, 0x5a, 4096);
        if (import_bytes(c, data, size + 4096, NULL, &v) == 0)
                conv_deinit(&v);
        assert_int_equal(daemon_fds(h), fds);
        /* And the conversation is as it was. */
        assert_int_equal(client_rewind(c, id, 2, NULL), 0);
        expect_same(c, &origin, id);
        free(data);
        conv_deinit(&origin);
        reply_deinit(&want);
        client_free(c);
        harness_stop(h);
}

/* What is wrong with a client's file or descriptor is the client's to hear, and no error of ours.
 */
static void test_mistakes_are_no_errors(void **state) {
        struct harness *h = *state;
        struct client *c;
        struct conv v = {};
        char path[32], *log;
        uint64_t id;
        uint32_t n_memory;
        size_t size;
        uint8_t *data;
        int fd, writing;

        harness_start(h, NULL);
        c = harness_client(h);
        make_talk(c, &id);
        data = take_export(c, id, false, &size, &n_memory);
        for (size_t at = 5; at < size; at += size / 9 + 1) {
                data[at] ^= 0x55;
                if (import_bytes(c, data, size, NULL, &v) == 0)
                        conv_deinit(&v); /* only its memory was damaged */
                data[at] ^= 0x55;
        }
        assert_int_equal(import_bytes(c, "nonsense", 8, NULL, &v), -1);
        fd = client_memfd(data, size);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        writing = open(path, O_WRONLY | O_CLOEXEC);
        if (writing >= 0) {
                assert_int_equal(client_import(c, writing, NULL, &v), -1);
                assert_string_equal(c->error.code, "invalid");
                close(writing);
        }
        close(fd);
        free(data);
        client_free(c);
        harness_stop(h);
        log = harness_read_log(h);
        if (strstr(log, "confabd: error:"))
                fail_msg("%s", strstr(log, "confabd: error:"));
        free(log);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_round_trip),
                daemon_test(test_mistakes_are_no_errors),
                daemon_test(test_imported_is_private),
                daemon_test(test_garbage),
        };

        return DAEMON_TESTS_MAIN(tests);
}
