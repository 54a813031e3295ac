/* SPDX-License-Identifier: MIT */
/* Where a reply's text ends: at stop strings, wherever they lie, and inside a character. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "inside.h"
#include "rig.h"
#include "util/test.h"

enum { LENGTH = 60 };

static struct answer whole, A;
static struct erig rig;

static struct engine_request question(void) {
        return erig_say_request(
                erig_new(&rig, NULL, NULL), "Tell me about your day, please.", LENGTH);
}

static int setup(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;

        if (!erig_model())
                return 0;
        erig_open(&rig, &o);
        q = question();
        q.ignore_eos = true;
        assert_int_equal(erig_do(&rig, &q, &whole), ENGINE_DONE);
        assert_int_equal(whole.n_tokens, LENGTH);
        return 0;
}

static int teardown(void **state) {
        if (rig.en)
                erig_close(&rig);
        return 0;
}

/* Ask again, with stop strings; the text must end before the byte @at. */
static void check_stop(const char *first, const char *second, size_t at, const char *stop) {
        struct engine_request q = question();

        q.ignore_eos = true;
        q.stops[q.n_stops++] = first;
        if (second)
                q.stops[q.n_stops++] = second;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP_STRING);
        assert_int_equal(strlen(A.text), at);
        assert_memory_equal(A.text, whole.text, at);
        assert_string_equal(A.stop, stop);
}

static bool is_plain(const char *p, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!isascii(p[i]) || !p[i])
                        return false;
        return true;
}

/* The last byte of one token's text and the first of the next: nothing of it is sent. */
static void test_across_tokens(void **state) {
        unsigned n = 0;

        erig_need_model();
        for (size_t i = 0; i + 1 < whole.n_tokens; i++) {
                size_t at = whole.ends[i] - 1;
                char stop[3] = {0};

                if (whole.ends[i] == 0 || whole.ends[i + 1] == whole.ends[i] ||
                        !is_plain(whole.text + at, 2))
                        continue;
                memcpy(stop, whole.text + at, 2);
                if (strstr(whole.text, stop) != whole.text + at)
                        continue;
                check_stop(stop, NULL, at, stop);
                n++;
        }
        assert_true(n > 0);
}

/* Two stop strings in the text of one token: the earlier one ends it, in whatever order they are
 * listed. */
static void test_the_earliest(void **state) {
        unsigned n = 0;

        erig_need_model();
        for (size_t i = 1; i < whole.n_tokens && n < 5; i++) {
                size_t at = whole.ends[i - 1];
                char early[3] = {0}, late[3] = {0};

                if (whole.ends[i] < at + 4 || !is_plain(whole.text + at, 4))
                        continue;
                memcpy(early, whole.text + at, 2);
                memcpy(late, whole.text + at + 2, 2);
                if (strstr(whole.text, early) != whole.text + at ||
                        strstr(whole.text, late) != whole.text + at + 2)
                        continue;
                check_stop(early, late, at, early);
                check_stop(late, early, at, early);
                n++;
        }
        assert_true(n > 0);
}

/* A reply that ends inside a character: each byte that is left becomes U+FFFD. */
static void test_inside_character(void **state) {
        static const char *const expected[] = {"", "\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"};

        erig_need_model();
        for (uint32_t n = 1; n <= 2; n++) {
                struct engine_request q = question();

                q.max_tokens = n;
                q.sampling.has |= SAMPLING_BIASES;
                q.sampling.n_biases = 1;
                q.sampling.biases[0].token = inside_find_token(rig.en, "<0xE2>");
                q.sampling.biases[0].bias = 1e6f;
                assert_int_equal(erig_do(&rig, &q, &A), ENGINE_DONE);
                assert_int_equal(A.n_tokens, n);
                assert_string_equal(A.text, expected[n]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_across_tokens),
                cmocka_unit_test(test_the_earliest),
                cmocka_unit_test(test_inside_character),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
