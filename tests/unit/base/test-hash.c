/* SPDX-License-Identifier: MIT */
#include "base/hash.h"
#include "util/test.h"
#include <string.h>

static void test_known_answers(void **state) {
        uint8_t bytes[101];

        assert_true(hash64("", 0, 0) == 0xEF46DB3751D8E999);
        assert_true(hash64(NULL, 0, 0) == 0xEF46DB3751D8E999);
        assert_true(hash64("a", 1, 0) == 0xD24EC4F1A98C6E5B);
        assert_true(hash64("abc", 3, 0) == 0x44BC2CF5AD770999);

        /* the specification's sanity buffer: bytes of a growing product of PRIME32_1 */
        uint32_t x = 2654435761u;
        for (size_t i = 0; i < sizeof(bytes); i++) {
                bytes[i] = (uint8_t)(x >> 24);
                x *= x;
        }
        assert_true(hash64(bytes, 1, 0) == 0x4FCE394CC88952D8);
        assert_true(hash64(bytes, 1, 2654435761u) == 0x739840CB819FA723);
        assert_true(hash64(bytes, 14, 0) == 0xCFFA8DB881BC3A3D);
        assert_true(hash64(bytes, 14, 2654435761u) == 0x5B9611585EFCC9CB);
        assert_true(hash64(bytes, 101, 0) == 0x0EAB543384F878AD);
        assert_true(hash64(bytes, 101, 2654435761u) == 0xCAA65939306F1E21);
}

static void test_stream_equals_whole(void **state) {
        uint8_t bytes[200];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 37 + 11);
        for (size_t n = 0; n <= sizeof(bytes); n++)
                for (size_t step = 1; step < 70; step += 3) {
                        struct hash64 h;

                        hash64_init(&h, n);
                        for (size_t i = 0; i < n; i += step)
                                hash64_update(&h, bytes + i, n - i < step ? n - i : step);
                        hash64_update(&h, NULL, 0);
                        assert_true(hash64_digest(&h) == hash64(bytes, n, n));
                }
}

static void test_siphash(void **state) {
        /* the paper's key 00..0f and the first vectors for messages 00, 0001, ... */
        static const uint64_t key[2] = {0x0706050403020100, 0x0F0E0D0C0B0A0908};
        static const struct {
                size_t n;
                uint64_t hash;
        } known[] = {
                {0, 0x726FDB47DD0E0E31},
                {1, 0x74F839C593DC67FD},
                {7, 0xAB0200F58B01D137},
                {8, 0x93F5F5799A932462},
                {15, 0xA129CA6149BE45E5},
                {16, 0x3F2ACC7F57C29BDB},
        };
        uint8_t message[16];

        for (size_t i = 0; i < sizeof(message); i++)
                message[i] = (uint8_t)i;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                assert_true(hash64_keyed(message, known[i].n, key) == known[i].hash);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known_answers),
                cmocka_unit_test(test_stream_equals_whole),
                cmocka_unit_test(test_siphash),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
