/* SPDX-License-Identifier: MIT */
/*
 * Memory in a remote store (engine/far, memory/fetch.c): what has left RAM and disk comes back from there, of every kind of memory, bit
 * for bit; to nobody but its owner; and whatever is wrong there, only slower. With a server that tests/util/with-redis.py has started.
 */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"
#include "kinds-rig.h"
#include "transfer-rig.h"
#include "util/test.h"
#include "util/tiny-model.h"

/* What threads do is the same for each of them. */
#define EACH(k) for (const struct kind *k = kinds; k < kinds + (TEST_TSAN ? 1 : N_KINDS); k++)

static struct answer A, B, W;
static struct erig r, fresh;
/* Attention over everything, and nothing else. */
static struct kind attention = {.arch = "llama", .blocks = true};
static redisContext *redis;
static const char *uri, *control_path;

/* --- the server --- */

static redisReply *command(const char *format, ...) {
        redisReply *reply;
        va_list ap;

        va_start(ap, format);
        reply = redisvCommand(redis, format, ap);
        va_end(ap);
        if (!reply || reply->type == REDIS_REPLY_ERROR)
                fail_msg("%s: %s", format, reply ? reply->str : redis->errstr);
        return reply;
}

/* tests/util/with-redis.py does it. */
static void control(const char *line) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char said[256] = "";

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", control_path);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_true(dprintf(fd, "%s\n", line) > 0);
        assert_true(read(fd, said, sizeof(said) - 1) > 0);
        if (strncmp(said, "ok", 2) != 0)
                fail_msg("%s: %s", line, said);
        close(fd);
}

/* Of which the kind is 'm' (blocks) or 'c' (tables of contents); to be freed. */
static redisReply *keys_of(char kind) {
        char pattern[32];

        snprintf(pattern, sizeof(pattern), "confab:%c:*", kind);
        return command("KEYS %s", pattern);
}

static size_t n_keys(char kind) {
        redisReply *keys = keys_of(kind);
        size_t n = keys->elements;

        freeReplyObject(keys);
        return n;
}

static int setup(void **state) {
        const char *path;

        uri = getenv("CONFAB_TEST_REDIS");
        control_path = getenv("CONFAB_TEST_REDIS_CONTROL");
        if (!uri)
                return 0;
        path = strstr(uri, ":///") + 3;
        redis = redisConnectUnix(path);
        assert_non_null(redis);
        if (redis->err)
                fail_msg("%s: %s", path, redis->errstr);
        strcpy(attention.path, "/tmp/confab-kind-XXXXXX");
        close(mkstemp(attention.path));
        if (tiny_model_write_long(attention.path, attention.arch, KIND_CONTEXT) < 0)
                return -1;
        return kinds_make(state);
}

static int teardown(void **state) {
        if (!uri)
                return 0;
        redisFree(redis);
        unlink(attention.path);
        return kinds_remove(state);
}

/* Whatever a test that failed has left. */
static int clear(void **state) {
        if (!uri)
                return 0;
        if (control_path)
                control("redis resume");
        freeReplyObject(command("CONFIG SET maxmemory 0"));
        freeReplyObject(command("FLUSHALL"));
        return 0;
}

static long long remaining(const char *key) {
        redisReply *reply = command("TTL %s", key);
        long long sec = reply->integer;

        freeReplyObject(reply);
        return sec;
}

static void need_server(void) {
        if (!uri)
                skip();
}

static void need_control(void) {
        if (!uri || !control_path)
                skip();
}

/* --- an engine --- */

static struct engine_options options(const struct kind *k) {
        struct engine_options o = erig_options(32 << 20);

        o.model_path = k->path;
        o.spill_delay_ms = 0;
        o.remote.uri = uri;
        o.remote.always = true;
        o.remote.write_share = 100;
        return o;
}

static void open_both(const struct kind *k) {
        struct engine_options o = options(k);

        erig_open(&r, &o);
        kind_open(&fresh, k, UINT32_MAX);
}

/* Files that were lost are no damage that the remote store has done. */
static void close_one(void) {
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_close(&r);
}

static void close_both(void) {
        close_one();
        kind_close(&fresh);
}

/* Everything is on disk, and was brought to the server. */
static void wait_sent(void) {
        kind_wait_idle(&r);
        while (erig_stat(&r, "remote_pending") > 0)
                usleep(1000);
}

static void send_all_of(uint64_t owner, uint64_t c) {
        struct engine_request q = erig_request(ENGINE_EVICT, c);

        q.owner = owner;
        kind_wait_idle(&r);
        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
        wait_sent();
}

static void send_all(uint64_t c) {
        send_all_of(0, c);
}

/* --- what comes back --- */

static void test_comes_back(void **state) {
        need_server();
        EACH(k) {
                uint64_t c, n_read;
                uint32_t again;

                clear(NULL);
                open_both(k);
                c = kind_talk(&r, 6, &A);
                send_all(c);
                assert_true(n_keys('m') > 0);
                /* A partial block that was sent between two turns is not there any more. */
                assert_true(erig_stat(&r, "remote_blocks_sent") >= n_keys('m'));
                assert_int_equal(n_keys('c'), 1);
                erig_forget_memory(&r);
                erig_get(&r, c, &W);
                again = kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
                assert_true(again <= 1);
                assert_true(B.n_disk > 0);
                n_read = erig_stat(&r, "remote_blocks_read");
                assert_true(n_read > 0);
                assert_int_equal(erig_stat(&r, "remote_damaged"), 0);
                /* What has come is written to the own disk, and nothing is sent a second time. */
                send_all(c);
                assert_true(erig_stat(&r, "blocks_spilled") >= n_read);
                answer_reset(&W);
                close_both();
        }
}

/* Nothing of this is in RAM or on disk: another conversation of the same user begins with the same tokens. */
static void test_shared_prefix(void **state) {
        need_server();
        EACH(k) {
                const char *text = erig_words(60, 1);
                uint64_t c, other;

                clear(NULL);
                open_both(k);
                c = kind_open_as(&r, 1000, text);
                kind_say_as(&r, 1000, c, "Hello.", &A);
                send_all_of(1000, c);
                erig_forget_memory(&r);
                c = kind_open_as(&r, 1000, text);
                kind_say_as(&r, 1000, c, "And you?", &A);
                assert_true(A.n_disk >= KIND_BLOCK);
                /* To another user it is as if it were not there. */
                erig_forget_memory(&r);
                other = kind_open_as(&r, 1001, text);
                kind_say_as(&r, 1001, other, "And you?", &B);
                assert_int_equal(B.n_disk, 0);
                answer_same(&A, &B);
                close_both();
        }
}

/* --- what is wrong there --- */

enum wrong { GONE, CUT, BIT, SEAL, SWAPPED, LIST, LONG, N_WRONG };

static void spoil_one(enum wrong wrong, const char *key, const char *next) {
        redisReply *value = command("GET %s", key), *other;
        size_t at = value->len / 2;
        char byte;

        switch (wrong) {
        case GONE:
                freeReplyObject(command("DEL %s", key));
                break;
        case CUT:
                freeReplyObject(command("SET %s %b", key, value->str, value->len / 2));
                break;
        case BIT:
                /* The header is at the front, and zeros may be at the end. */
                at = value->len > 8192 ? 4096 : 100;
                byte = (char)(value->str[at] ^ 1);
                freeReplyObject(command("SETRANGE %s %d %b", key, (int)at, &byte, (size_t)1));
                break;
        case SEAL:
                byte = (char)(value->str[value->len - 1] ^ 1);
                freeReplyObject(
                        command("SETRANGE %s %d %b", key, (int)value->len - 1, &byte, (size_t)1));
                break;
        case SWAPPED:
                other = command("GET %s", next);
                freeReplyObject(command("SET %s %b", key, other->str, (size_t)other->len));
                freeReplyObject(other);
                break;
        case LIST:
                freeReplyObject(command("DEL %s", key));
                freeReplyObject(command("RPUSH %s x", key));
                break;
        case LONG:
                freeReplyObject(command("SETRANGE %s %d x", key, 100 << 20));
                break;
        case N_WRONG:
                break;
        }
        freeReplyObject(value);
}

static void spoil(enum wrong wrong, char kind) {
        redisReply *keys = keys_of(kind);

        assert_true(keys->elements > 0);
        for (size_t i = 0; i < keys->elements && (wrong != LONG || i < 2); i++)
                spoil_one(
                        wrong, keys->element[i]->str, keys->element[(i + 1) % keys->elements]->str);
        freeReplyObject(keys);
}

static void check_wrong(const struct kind *k, enum wrong wrong, char what) {
        uint64_t c;

        clear(NULL);
        open_both(k);
        c = kind_talk(&r, 6, &A);
        send_all(c);
        erig_forget_memory(&r);
        spoil(wrong, what);
        erig_get(&r, c, &W);
        (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
        if (what == 'm' && wrong != LONG)
                assert_int_equal(B.n_disk, 0);
        if (what == 'm' && (wrong == CUT || wrong == BIT || wrong == SEAL || wrong == SWAPPED))
                assert_true(erig_stat(&r, "remote_damaged") > 0);
        assert_int_equal(r.n_logged[ENGINE_LOG_REMOTE_FAILS], 0);
        /* It is brought there again, and good then. */
        send_all(c);
        answer_reset(&W);
        close_both();
}

static void test_wrong_blocks(void **state) {
        need_server();
        EACH(k)
        for (enum wrong w = GONE; w < N_WRONG; w++)
                check_wrong(k, w, 'm');
}

static void test_wrong_contents(void **state) {
        need_server();
        EACH(k)
        for (enum wrong w = GONE; w < N_WRONG; w++)
                if (w != SWAPPED)
                        check_wrong(k, w, 'c');
}

/* The key of a block of attention: the conversation's table names it, the only one. */
static void key_of_block(uint32_t index, char ret[48]) {
        redisReply *tables = keys_of('c'), *table;
        int n = 0;

        assert_int_equal(tables->elements, 1);
        table = command("GET %s", tables->element[0]->str);
        for (size_t at = 8; n == 0 && at + 40 <= (size_t)table->len; at += 40) {
                uint32_t cell[2]; /* class, index */

                memcpy(cell, table->str + at, sizeof(cell));
                if (cell[0] != 0 || cell[1] != index)
                        continue;
                n = snprintf(ret, 48, "confab:m:");
                for (size_t i = 0; i < 16; i++)
                        n += snprintf(
                                ret + n, 48 - (size_t)n, "%02x", (uint8_t)table->str[at + 24 + i]);
        }
        assert_true(n > 0);
        freeReplyObject(table);
        freeReplyObject(tables);
}

/* Attention alone: what is in front of a block that cannot be had is of use, whatever is wrong with that. */
static void test_part(void **state) {
        need_server();
        for (enum wrong w = GONE; w < N_WRONG; w++) {
                char key[48], next[48];
                uint64_t c;

                clear(NULL);
                open_both(&attention);
                c = kind_talk(&r, 8, &A);
                send_all(c);
                erig_forget_memory(&r);
                key_of_block(2, key);
                key_of_block(3, next);
                spoil_one(w, key, next);
                erig_get(&r, c, &W);
                (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
                assert_int_equal(B.n_disk, 2 * KIND_BLOCK);
                answer_reset(&W);
                close_both();
        }
}

/* Somewhere in the middle. */
static void test_gap(void **state) {
        need_server();
        EACH(k) {
                redisReply *keys;
                uint64_t c;

                clear(NULL);
                open_both(k);
                c = kind_talk(&r, 8, &A);
                send_all(c);
                erig_forget_memory(&r);
                keys = keys_of('m');
                spoil_one(GONE, keys->element[keys->elements / 2]->str, NULL);
                freeReplyObject(keys);
                erig_get(&r, c, &W);
                (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
                answer_reset(&W);
                close_both();
        }
}

/* --- what is closed, and forks --- */

static void test_closed(void **state) {
        const struct kind *k = &kinds[0];
        uint64_t c, fork;
        size_t n;

        need_server();
        open_both(k);
        c = kind_talk(&r, 6, &A);
        send_all(c);
        n = n_keys('m');
        fork = erig_fork(&r, c);
        kind_say(&r, fork, 7, &A);
        send_all(fork);
        assert_int_equal(n_keys('c'), 2);
        /* What the other one has as well stays. */
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, fork, NULL), ENGINE_EMPTY);
        wait_sent();
        assert_int_equal(n_keys('c'), 1);
        assert_int_equal(n_keys('m'), n);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        wait_sent();
        assert_int_equal(n_keys('c') + n_keys('m'), 0);
        close_both();
}

/* What was rewound goes with the next push. */
static void test_rewound(void **state) {
        need_server();
        EACH(k) {
                struct engine_request q;
                uint64_t c;

                clear(NULL);
                open_both(k);
                c = kind_talk(&r, 6, &A);
                send_all(c);
                q = kind_cut_request(ENGINE_REWIND, c, 3);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                kind_say(&r, c, 9, &A);
                send_all(c);
                assert_int_equal(n_keys('c'), 1);
                erig_forget_memory(&r);
                erig_get(&r, c, &W);
                (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
                assert_true(B.n_disk > 0);
                answer_reset(&W);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
                wait_sent();
                assert_int_equal(n_keys('c') + n_keys('m'), 0);
                close_both();
        }
}

enum {
        IN_BLOCK = 7,
        END = 20
}; /* tokens: of the last block before the last turn, and of the last turn */

/* The last turn lies within a block. */
static uint64_t talk_to_middle(void) {
        uint64_t c = kind_talk(&r, 4, &A);

        erig_get(&r, c, &W);
        kind_append(&r, c, KIND_BLOCK + IN_BLOCK - W.turns[W.n_turns - 1].end % KIND_BLOCK, 0);
        answer_reset(&W);
        kind_append(&r, c, END, 1);
        return c;
}

/* It becomes as many other tokens: cells of the same places and sizes. */
static void replace_end(uint64_t c) {
        struct engine_request q;

        erig_get(&r, c, &W);
        q = kind_cut_request(ENGINE_REWIND, c, W.n_turns - 1);
        answer_reset(&W);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        kind_append(&r, c, END, 2);
}

/* All of its memory comes back, and whole. */
static void check_comes_whole(uint64_t c) {
        erig_forget_memory(&r);
        erig_get(&r, c, &W);
        assert_true(kind_go_on(&r, c, &W, W.n_turns, &fresh, &B) <= 1);
        assert_int_equal(erig_stat(&r, "remote_damaged"), 0);
        answer_reset(&W);
}

static void test_rewound_in_a_block(void **state) {
        need_server();
        EACH(k) {
                uint64_t c;

                clear(NULL);
                open_both(k);
                c = talk_to_middle();
                send_all(c);
                replace_end(c);
                send_all(c);
                check_comes_whole(c);
                close_both();
        }
}

/* What is there of tokens that were rewound since, while nobody could send: it does not keep what is before them from coming. */
static void test_rewound_unsent(void **state) {
        need_server();
        EACH(k) {
                struct engine_request q;
                uint64_t c;

                clear(NULL);
                open_both(k);
                c = kind_talk(&r, 8, &A);
                send_all(c);
                erig_stop(&r, true);
                r.o.remote.uri = NULL;
                erig_start(&r);
                q = kind_cut_request(ENGINE_REWIND, c, 11);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                kind_append(&r, c, 100, 1);
                erig_stop(&r, true);
                r.o.remote.uri = uri;
                erig_start(&r);
                erig_forget_memory(&r);
                erig_get(&r, c, &W);
                (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
                assert_true(B.n_disk >= KIND_BLOCK);
                assert_int_equal(erig_stat(&r, "remote_damaged"), 0);
                answer_reset(&W);
                close_both();
        }
}

/* What was written before a rewind, and could be sent only when other tokens stood there. */
static void test_rewound_while_full(void **state) {
        const struct kind *k = &attention;
        struct engine_options o;
        uint64_t c;

        need_server();
        o = options(k);
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        kind_open(&fresh, k, UINT32_MAX);
        c = talk_to_middle();
        freeReplyObject(command("CONFIG SET maxmemory 1"));
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        erig_wait_stat(&r, "remote_failures", 1);
        replace_end(c);
        kind_append(&r, c, KIND_BLOCK, 3);
        freeReplyObject(command("CONFIG SET maxmemory 0"));
        wait_sent();
        /* That of before the end. */
        assert_true(n_keys('m') > 0);
        erig_forget_memory(&r);
        erig_get(&r, c, &W);
        (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
        assert_true(B.n_disk > 0);
        assert_int_equal(erig_stat(&r, "remote_damaged"), 0);
        answer_reset(&W);
        close_both();
}

/* --- what was imported --- */

/* Memory that came from elsewhere is that of its conversation, and of no other one with the same tokens. */
static void test_imported(void **state) {
        need_server();
        EACH(k) {
                struct transfer_file f;
                uint64_t c, of_text;

                clear(NULL);
                open_both(k);
                f = transfer_export(&fresh, kind_talk(&fresh, 6, &A), false);
                c = transfer_import_good(&r, &f, "private");
                assert_true(transfer_last.conv.private_memory);
                of_text = transfer_import_good(&r, &f, "text");
                assert_true(transfer_last.conv.private_memory);
                kind_say(&r, c, 6, &A);
                send_all(c);
                assert_true(n_keys('m') > 0);
                /* Without memory of its own it would have to be found by its tokens. */
                erig_forget_memory(&r);
                kind_say(&r, of_text, 6, &B);
                assert_int_equal(B.n_disk, 0);
                answer_same(&A, &B);
                erig_get(&r, c, &W);
                assert_true(kind_go_on(&r, c, &W, W.n_turns, &fresh, &B) <= 1);
                assert_true(B.n_disk > 0);
                answer_reset(&W);
                /* Nobody else has it: it goes with its conversation. */
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, of_text, NULL), ENGINE_EMPTY);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
                wait_sent();
                assert_int_equal(n_keys('c') + n_keys('m'), 0);
                free(f.data);
                close_both();
        }
}

/* --- limits --- */

static void set_earlier_day(const struct erig *e) {
        const struct store_meter meter = {"remote_day", 1};
        struct store *s = NULL;
        char path[128];

        snprintf(path, sizeof(path), "%s/register.db", e->dir);
        assert_int_equal(store_open(&s, path, NULL), 0);
        assert_int_equal(store_meter_set(s, &meter, 1, NULL), 0);
        store_free(s);
}

static void test_daily_limit(void **state) {
        struct engine_options o;
        uint64_t c, sent;

        need_server();
        o = options(&kinds[0]);
        o.remote.writes_per_day = 40000;
        erig_open(&r, &o);
        c = kind_talk(&r, 6, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        sent = erig_wait_stat(&r, "bytes_remote_today", 1);
        erig_settle(r.en);
        sent = erig_stat(&r, "bytes_remote_today");
        assert_true(sent > 0 && sent <= 40000);
        /* The day is remembered. */
        erig_restart(&r, true);
        assert_int_equal(erig_stat(&r, "bytes_remote_today"), sent);
        kind_say(&r, c, 7, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        erig_settle(r.en);
        assert_true(erig_stat(&r, "bytes_remote_today") <= 40000);
        assert_true(sent + erig_stat(&r, "bytes_remote_sent") <= 40000);
        assert_int_equal(r.n_logged[ENGINE_LOG_REMOTE_FAILS], 0);
        /* What was sent on an earlier day does not count, nor is it told. */
        erig_stop(&r, true);
        set_earlier_day(&r);
        r.o.remote.writes_per_day = 1; /* or what was left out then would be sent now */
        erig_start(&r);
        assert_int_equal(erig_stat(&r, "bytes_remote_today"), 0);
        close_one();
}

/* Some of it was left out: what is there is of use. */
static void test_sent_in_part(void **state) {
        const struct kind *k = &kinds[1]; /* states, the last of which is sent last */
        uint64_t c, all;

        need_server();
        open_both(k);
        c = kind_talk(&r, 12, &A);
        send_all(c);
        all = erig_stat(&r, "bytes_remote_sent");
        close_both();
        clear(NULL);
        open_both(k);
        erig_stop(&r, true);
        r.o.remote.writes_per_day = all * 3 / 4;
        erig_start(&r);
        c = kind_talk(&r, 12, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        erig_wait_stat(&r, "remote_blocks_sent", 1);
        erig_settle(r.en);
        erig_forget_memory(&r);
        erig_get(&r, c, &W);
        (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
        assert_true(B.n_disk > 0);
        answer_reset(&W);
        close_both();
}

/* A server that is full can still be read; it is told once, and when it takes values again. */
static void test_full(void **state) {
        const struct kind *k = &kinds[0];
        uint64_t c, full;

        need_server();
        open_both(k);
        c = kind_talk(&r, 6, &A);
        send_all(c);
        erig_forget_memory(&r);
        freeReplyObject(command("CONFIG SET maxmemory 1"));
        full = kind_talk(&r, 3, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, full, NULL), ENGINE_CONV);
        erig_wait_stat(&r, "remote_failures", 2);
        assert_int_equal(erig_stat(&r, "remote_up"), 1);
        erig_get(&r, c, &W);
        (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
        answer_reset(&W);
        assert_int_equal(r.n_logged[ENGINE_LOG_REMOTE_FAILS], 1);
        freeReplyObject(command("CONFIG SET maxmemory 0"));
        wait_sent();
        assert_int_equal(n_keys('c'), 2);
        assert_int_equal(r.n_logged[ENGINE_LOG_REMOTE_FAILS], 1);
        assert_int_equal(r.n_logged[ENGINE_LOG_REMOTE_WORKS], 1);
        close_both();
}

/* --- what was not brought in time --- */

static void set_uri(const char *to) {
        erig_stop(&r, true);
        r.o.remote.uri = to;
        erig_start(&r);
}

/* What the disk has from before there was a remote store is brought there, once, whether anybody uses it or not. */
static void test_brought_later(void **state) {
        need_server();
        EACH(k) {
                uint64_t c, closed;
                redisReply *keys;

                clear(NULL);
                open_both(k);
                set_uri(NULL);
                kind_talk(&r, 3, &A);
                c = kind_talk(&r, 6, &A);
                closed = kind_talk(&r, 2, &A);
                send_all(c);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, closed, NULL), ENGINE_EMPTY);
                assert_int_equal(n_keys('m') + n_keys('c'), 0);
                /* First the server takes nothing. */
                freeReplyObject(command("CONFIG SET maxmemory 1"));
                set_uri(uri);
                erig_wait_stat(&r, "remote_failures", 1);
                freeReplyObject(command("CONFIG SET maxmemory 0"));
                wait_sent();
                assert_int_equal(n_keys('c'), 2);
                assert_true(erig_stat(&r, "remote_blocks_sent") > 0);
                /* What is there is looked at, and not so much as touched. */
                keys = keys_of('m');
                freeReplyObject(command("EXPIRE %s 1000", keys->element[0]->str));
                erig_restart(&r, true);
                wait_sent();
                assert_int_equal(erig_stat(&r, "remote_blocks_sent"), 0);
                assert_in_range(remaining(keys->element[0]->str), 1, 1000);
                freeReplyObject(keys);
                /* All of it is gone there. */
                freeReplyObject(command("FLUSHALL"));
                erig_restart(&r, true);
                wait_sent();
                assert_int_equal(n_keys('c'), 2);
                erig_forget_memory(&r);
                wait_sent();
                assert_int_equal(n_keys('c'), 2);
                erig_get(&r, c, &W);
                assert_true(kind_go_on(&r, c, &W, W.n_turns, &fresh, &B) <= 1);
                assert_true(B.n_disk > 0);
                answer_reset(&W);
                close_both();
        }
}

static void remove_state(const char *dir) {
        char line[2 * sizeof(r.dir)];

        snprintf(line, sizeof(line), "rm -rf '%s'", dir);
        assert_int_equal(system(line), 0);
}

/* What an engine has on disk, as it is now. */
static void copy_state(const char *from, const char *to) {
        char line[3 * sizeof(r.dir)];

        remove_state(to);
        snprintf(line, sizeof(line), "cp -a '%s' '%s'", from, to);
        assert_int_equal(system(line), 0);
}

/* The disk loses the blocks [first, past) of a conversation. */
static void lose_blocks(const char *dir, uint64_t c, uint32_t first, uint32_t past) {
        struct store *s = NULL;
        char path[sizeof(r.dir) + 32];
        struct store_cell cells[64];
        struct store_gone gone;
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/register.db", dir);
        assert_int_equal(store_open(&s, path, NULL), 0);
        for (uint32_t i = first; i < past; i++)
                cells[n++] = (struct store_cell){STORE_CLASS_ALL, i};
        assert_int_equal(store_unlink_cells(s, c, cells, n, &gone, NULL), 0);
        store_gone_deinit(&gone);
        store_free(s);
}

/* Another machine has brought the end of it, and this one has the beginning: all of it is found. */
static void test_added_later(void **state) {
        enum { HALF = 2, ALL = 5 };
        char copy[sizeof(r.dir) + 8];
        uint64_t c;

        need_server();
        open_both(&attention);
        c = erig_new(&r, NULL, NULL);
        kind_append(&r, c, ALL * KIND_BLOCK, 1);
        send_all(c);
        assert_int_equal(n_keys('m'), ALL);
        erig_stop(&r, true);
        snprintf(copy, sizeof(copy), "%s-copy", r.dir);
        copy_state(r.dir, copy);
        freeReplyObject(command("FLUSHALL"));
        lose_blocks(r.dir, c, 0, HALF);
        erig_start(&r);
        wait_sent();
        assert_int_equal(n_keys('m'), ALL - HALF);
        erig_stop(&r, true);
        copy_state(copy, r.dir);
        lose_blocks(r.dir, c, HALF, ALL);
        erig_start(&r);
        wait_sent();
        assert_int_equal(erig_stat(&r, "remote_blocks_sent"), HALF);
        assert_int_equal(n_keys('m'), ALL);
        erig_forget_memory(&r);
        erig_get(&r, c, &W);
        assert_true(kind_go_on(&r, c, &W, W.n_turns, &fresh, &B) <= 1);
        assert_true(B.n_disk >= (ALL - 1) * KIND_BLOCK);
        answer_reset(&W);
        close_both();
        remove_state(copy);
}

/* What this disk has of a block is less than what is there: that stays. */
static void test_shorter_later(void **state) {
        char copy[sizeof(r.dir) + 8];
        redisReply *keys, *was, *is;
        uint64_t c;

        need_server();
        open_both(&attention);
        erig_stop(&r, true);
        r.o.spill_delay_ms = UINT32_MAX;
        erig_start(&r);
        c = erig_new(&r, NULL, NULL);
        kind_append(&r, c, KIND_BLOCK + 3, 1);
        send_all(c);
        kind_append(&r, c, 3, 2);
        erig_settle(r.en);
        snprintf(copy, sizeof(copy), "%s-copy", r.dir);
        copy_state(r.dir, copy);
        send_all(c);
        keys = keys_of('c');
        assert_int_equal(keys->elements, 1);
        was = command("GET %s", keys->element[0]->str);
        erig_stop(&r, true);
        copy_state(copy, r.dir);
        erig_start(&r);
        wait_sent();
        is = command("GET %s", keys->element[0]->str);
        assert_int_equal(is->len, was->len);
        assert_memory_equal(
                is->str, was->str, was->len - 32); /* the seal is another one each time */
        freeReplyObject(is);
        freeReplyObject(was);
        freeReplyObject(keys);
        close_both();
        remove_state(copy);
}

/* A drain waits for it, and makes haste. */
static void test_drained_later(void **state) {
        enum { N = 6 };
        struct engine_request q = {.verb = ENGINE_DRAIN, .admin = true};
        struct engine_options o;

        need_server();
        o = options(&attention);
        o.remote.uri = NULL;
        o.remote.write_share = 1;
        erig_open(&r, &o);
        for (unsigned i = 0; i < N; i++)
                send_all(kind_talk(&r, 3, &A));
        set_uri(uri);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DRAINED);
        assert_int_equal(n_keys('c'), N);
        assert_int_equal(erig_stat(&r, "remote_pending"), 0);
        close_one();
}

/* Those that had to leave RAM before they were brought are brought nevertheless: a few of them, or more than anybody remembers. */
static void check_left(unsigned n_left) {
        struct engine_options o = options(&attention);
        unsigned n = 0;

        clear(NULL);
        o.pool_size = erig_pool(80);
        erig_open(&r, &o);
        freeReplyObject(command("CONFIG SET maxmemory 1"));
        for (; n < n_left + erig_stat(&r, "conversations_loaded"); n++) {
                uint64_t c = erig_new(&r, NULL, NULL);

                assert_true(n < 5000);
                kind_append(&r, c, KIND_BLOCK, n);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        }
        assert_true(erig_stat(&r, "remote_failures") > 0);
        assert_int_equal(n_keys('c'), 0);
        freeReplyObject(command("CONFIG SET maxmemory 0"));
        wait_sent();
        assert_int_equal(n_keys('c'), n);
        close_one();
}

static void test_left(void **state) {
        need_server();
        check_left(2);
        if (!TEST_TSAN)
                check_left(300);
}

/* --- a server that is away --- */

static void test_away(void **state) {
        struct engine_options o;
        uint64_t c;

        need_server();
        o = options(&kinds[0]);
        o.remote.uri = "redis:///nonexistent/socket";
        erig_open(&r, &o);
        kind_open(&fresh, &kinds[0], UINT32_MAX);
        c = kind_talk(&r, 6, &A);
        erig_forget_memory(&r);
        erig_get(&r, c, &W);
        (void)kind_go_on(&r, c, &W, W.n_turns, &fresh, &B);
        assert_int_equal(B.n_disk, 0);
        assert_int_equal(erig_stat(&r, "remote"), 1);
        assert_true(erig_stat(&r, "remote_failures") > 0);
        assert_true(r.n_logged[ENGINE_LOG_REMOTE_FAILS] >= 1);
        assert_int_equal(erig_stat(&r, "remote_up"), 0);
        answer_reset(&W);
        close_both();
}

/* The server takes what is said to it, and says nothing: who gives up waiting for it need not wait. */
static void test_cancelled(void **state) {
        struct engine_options o;
        struct engine_request q;
        uint64_t c;

        need_control();
        o = options(&kinds[0]);
        o.remote.timeout_usec = 60000000;
        erig_open(&r, &o);
        c = kind_talk(&r, 6, &A);
        send_all(c);
        erig_forget_memory(&r);
        control("redis pause");
        q = erig_long_request(c, "And now?", 4);
        erig_send(&r, &q, &B);
        erig_settle(r.en);
        assert_false(B.final);
        assert_int_equal(erig_simple(&r, ENGINE_CANCEL, c, NULL), ENGINE_EMPTY);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        /* It is still waited for: by nobody. */
        assert_int_equal(erig_stat(&r, "remote_failures"), 0);
        control("redis resume");
        kind_say(&r, c, 7, &A);
        close_one();
}

/* Many ask a server that says nothing: they do not wait for it one after the other. */
static void test_asked_by_many(void **state) {
        enum { N = 12 };
        static struct answer answers[N];
        struct engine_request q[N];
        struct engine_options o;
        uint64_t c[N];

        need_control();
        o = options(&kinds[0]);
        o.remote.timeout_usec = 300000;
        erig_open(&r, &o);
        for (unsigned i = 0; i < N; i++) {
                c[i] = kind_talk(&r, 3, &A);
                send_all(c[i]);
        }
        erig_forget_memory(&r);
        control("redis pause");
        for (unsigned i = 0; i < N; i++)
                q[i] = erig_long_request(c[i], "And now?", 4);
        erig_do_all(&r, q, answers, N);
        control("redis resume");
        for (unsigned i = 0; i < N; i++) {
                assert_int_equal(answers[i].kind, ENGINE_DONE);
                answer_same(&answers[i], &answers[0]);
        }
        assert_true(erig_stat(&r, "remote_failures") < N / 2);
        close_one();
}

static void test_bad_uri(void **state) {
        struct engine_options o;
        struct engine *en;
        struct err e;

        o = erig_options(32 << 20);
        need_server();
        o = options(&kinds[0]);
        o.state_dir = "/tmp/confab-test-remote-none";
        o.remote.uri = "http://example";
        assert_int_equal(engine_open(&en, &o, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "remote: "));
        assert_int_equal(system("rm -rf /tmp/confab-test-remote-none"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_comes_back, clear),
                cmocka_unit_test_setup(test_shared_prefix, clear),
                cmocka_unit_test_setup(test_wrong_blocks, clear),
                cmocka_unit_test_setup(test_wrong_contents, clear),
                cmocka_unit_test_setup(test_part, clear),
                cmocka_unit_test_setup(test_gap, clear),
                cmocka_unit_test_setup(test_closed, clear),
                cmocka_unit_test_setup(test_rewound, clear),
                cmocka_unit_test_setup(test_rewound_in_a_block, clear),
                cmocka_unit_test_setup(test_rewound_unsent, clear),
                cmocka_unit_test_setup(test_rewound_while_full, clear),
                cmocka_unit_test_setup(test_imported, clear),
                cmocka_unit_test_setup(test_daily_limit, clear),
                cmocka_unit_test_setup(test_sent_in_part, clear),
                cmocka_unit_test_setup(test_full, clear),
                cmocka_unit_test_setup(test_brought_later, clear),
                cmocka_unit_test_setup(test_added_later, clear),
                cmocka_unit_test_setup(test_shorter_later, clear),
                cmocka_unit_test_setup(test_drained_later, clear),
                cmocka_unit_test_setup(test_left, clear),
                cmocka_unit_test_setup(test_away, clear),
                cmocka_unit_test_setup(test_cancelled, clear),
                cmocka_unit_test_setup(test_asked_by_many, clear),
                cmocka_unit_test_setup(test_bad_uri, clear),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
