/* SPDX-License-Identifier: MIT */
/*
 * Memory that a request makes the engine hold is charged before it is allocated (I3): at each
 * allocation, in any thread, the bytes that the program holds are compared with the ledger's
 * shares. This is done for every verb, with small, large and absurd arguments, and with events that
 * are never fetched.
 *
 * Not covered here: memory of blocks (the pool has its own pages and tests; the heads of its slabs come
 * with the first block), and memory of SQLite and other shared libraries.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/count.h"
#include "spill/spill.h"
#include "store/store.h"
#include "unit/engine/inside.h"
#include "unit/engine/rig.h"
#include "unit/spill/scratch-rig.h"
#include "util/test.h"
#include "util/tiny-model.h"

#define MIB ((size_t)1 << 20)
/* Small things of a request that are not counted one by one (entries of tables, paths, what the
 * allocator adds), and those of a background job. */
#define SLACK ((size_t)48 << 10)
/* A job that writes has a copy of the tokens, and lists of blocks, until it ends: some 210 KB here. */
#define WRITING ((size_t)512 << 10)

static struct engine *engine;
static _Atomic int64_t worst; /* held - charged, the most since begin() */
static int64_t quiet;         /* the same with no request */
/* A conversation is charged for the most that its tables may come to. When it is closed, that goes, and with it what
 * it had not needed: from then on @quiet is too low, also for what the engine does of itself, as for removed
 * data. So a Close is watched for as long as conversations are charged for no less than this. */
static _Atomic uint64_t closing;
static char large[4 * MIB + 1];
static int32_t many_tokens[1 << 20];

/* The workers' memory for spill files is a share of the ledger by itself, and comes with its first use. */
static void take_engine(const struct erig *r) {
        struct spill *spill = inside_spill(r->en);

        engine = r->en;
        scratch_rig_use(spill, inside_scratch_size(engine) / spill_scratch_size(spill));
}

static int64_t charged(void) {
        return (int64_t)inside_charged(engine);
}

static void watch(size_t live) {
        int64_t over = (int64_t)live - charged(), most = worst;

        if (inside_conversations_charged(engine) < closing)
                return;
        while (most < over && !atomic_compare_exchange_weak(&worst, &most, over))
                ;
}

static bool writes(const char *what) {
        return strstr(what, "evict") || strstr(what, "with memory");
}

static void end(const char *what) {
        int64_t more = writes(what) ? (int64_t)WRITING : 0;

        count_begin(NULL);
        if (worst > quiet + (int64_t)SLACK + more)
                fail_msg("%s: %lld bytes were held and not charged", what,
                        (long long)(worst - quiet));
}

/* --- requests, without memory of the test's own --- */

struct outcome {
        enum engine_event_kind kind;
        struct err err;
        uint64_t conv;
        size_t n; /* turns, rows, tokens */
        int fd;
        uint64_t size;
};

static void take(const struct engine_event *ev, struct outcome *o) {
        o->kind = ev->kind;
        o->err = ev->err;
        if (ev->kind == ENGINE_CONV) {
                o->conv = ev->conv.id;
                o->n = ev->conv.n_tokens;
        } else if (ev->kind == ENGINE_CONVS) {
                o->n = ev->convs.n;
        } else if (ev->kind == ENGINE_TOKENS) {
                o->n = ev->tokens.n;
        } else if (ev->kind == ENGINE_EXPORTED) {
                o->fd = dup(ev->exported.fd);
                o->size = ev->exported.size;
        }
}

static uint64_t next_handle = 1000000;

static uint64_t submit(struct engine_request *q) {
        struct err e;

        q->handle = next_handle++;
        if (engine_submit(engine, q, &e) < 0)
                fail_msg("submit: %s", e.msg);
        return q->handle;
}

static struct outcome wait_for(uint64_t handle) {
        struct pollfd p = {.fd = engine_fd(engine), .events = POLLIN};
        struct outcome o = {0};
        bool done = false;

        while (!done) {
                struct engine_event *ev = engine_next_event(engine);

                if (!ev) {
                        assert_int_equal(poll(&p, 1, 60000), 1);
                        continue;
                }
                if (ev->handle == handle && ev->final) {
                        take(ev, &o);
                        done = true;
                }
                engine_event_free(ev);
        }
        return o;
}

/* The engine frees what a request held, and gives it back to the ledger, after the final event: when another one
 * was answered, both are done. */
static void begin(enum engine_verb verb) {
        struct engine_request q = {.verb = ENGINE_STATS};

        wait_for(submit(&q));
        quiet = (int64_t)count_live() - charged();
        closing = verb == ENGINE_CLOSE ? inside_conversations_charged(engine) : 0;
        worst = INT64_MIN;
        count_begin(watch);
}

static struct outcome run(const char *what, struct engine_request q) {
        struct outcome o;

        begin(q.verb);
        o = wait_for(submit(&q));
        end(what);
        return o;
}

static struct outcome verb(const char *what, enum engine_verb v, uint64_t conv) {
        return run(what, (struct engine_request){.verb = v,
                                 .conv_id = conv,
                                 .admin = true,
                                 .publish = true,
                                 .at_turn = ENGINE_UNSET,
                                 .at_position = ENGINE_UNSET});
}

static struct engine_request say(uint64_t conv, const void *text, size_t n, uint32_t max_tokens) {
        return (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = conv,
                .input = ENGINE_INPUT_MESSAGE,
                .role = ENGINE_USER,
                .text = text,
                .text_size = n,
                .max_tokens = max_tokens,
                .ignore_eos = true};
}

static void fill_words(void) {
        static const char words[] = "The green house by the river has seven birds, 1234 stones. ";

        for (size_t i = 0; i + 1 < sizeof(large); i++)
                large[i] = words[i % (sizeof(words) - 1)];
}

static void fill_noise(void) {
        uint64_t x = 88172645463325252u;

        for (size_t i = 0; i + 1 < sizeof(large); i++) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                large[i] = (char)(x >> 32);
        }
}

/* --- cases --- */

static void tokenize(const char *what, size_t n, uint64_t max_answer, enum engine_event_kind want) {
        struct outcome o = run(what, (struct engine_request){.verb = ENGINE_TOKENIZE,
                                             .text = large,
                                             .text_size = n,
                                             .special = true,
                                             .max_answer = max_answer});

        if (o.kind != want)
                fail_msg("%s: %s", what, o.err.msg);
        if (want == ENGINE_ERROR)
                assert_int_equal(o.err.code, ERR_TOO_LARGE);
        else
                assert_true(o.n > n / 200);
}

static void tokenize_cases(void) {
        fill_words();
        tokenize("tokenize a word", 10, 0, ENGINE_TOKENS);
        tokenize("tokenize 4 MiB of words", 4 * MIB, 0, ENGINE_TOKENS);
        tokenize("tokenize for a small frame", 4 * MIB, 4096, ENGINE_ERROR);
        fill_noise();
        tokenize("tokenize noise", MIB, 0, ENGINE_TOKENS);
        memset(large, 'a', 4 * MIB);
        tokenize("tokenize one letter", MIB, 0, ENGINE_TOKENS);
        memset(large, ' ', 4 * MIB);
        tokenize("tokenize blanks", MIB, 0, ENGINE_TOKENS);
        /* More than all that requests share. */
        fill_noise();
        tokenize("tokenize 4 MiB of noise", 4 * MIB, 0, ENGINE_ERROR);
}

static void input_cases(uint64_t conv) {
        struct engine_request q;

        fill_words();
        q = say(conv, large, 4 * MIB, 4);
        assert_int_equal(run("say 4 MiB", q).err.code, ERR_CONTEXT);
        q.input = ENGINE_INPUT_RAW;
        assert_int_equal(run("say 4 MiB raw", q).err.code, ERR_CONTEXT);
        q = say(conv, NULL, 0, 4);
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = many_tokens;
        q.n_tokens = sizeof(many_tokens) / sizeof(many_tokens[0]);
        assert_int_equal(run("say a million tokens", q).err.code, ERR_CONTEXT);
        q = (struct engine_request){.verb = ENGINE_OPEN, .system = large};
        assert_int_equal(run("open with 4 MiB", q).err.code, ERR_CONTEXT);
        large[3000] = '\0';
        assert_int_equal(run("open with a system message", q).kind, ENGINE_CONV);
        fill_words();
        q = say(conv, large, 5000, 64);
        assert_int_equal(run("say 5000 bytes", q).kind, ENGINE_DONE);
}

static void messages_cases(uint64_t conv) {
        static struct engine_message messages[ENGINE_MAX_MESSAGES];
        static struct engine_call calls[ENGINE_MAX_CALLS];
        struct engine_request q = say(conv, NULL, 0, 4);
        struct outcome o;

        fill_words();
        q.input = ENGINE_INPUT_MESSAGES;
        q.messages = messages;
        q.n_messages = ENGINE_MAX_MESSAGES;
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                messages[i] = (struct engine_message){
                        .role = ENGINE_USER, .text = large, .text_size = 256};
        assert_int_equal(run("say 16384 messages of 256 bytes", q).err.code, ERR_CONTEXT);
        for (size_t i = 0; i < ENGINE_MAX_CALLS; i++)
                calls[i] = (struct engine_call){"c", "f", "{}"};
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                messages[i] = (struct engine_message){.role = ENGINE_ASSISTANT,
                        .calls = calls,
                        .n_calls = i == ENGINE_MAX_MESSAGES / 2 ? ENGINE_MAX_CALLS : 1};
        assert_int_equal(run("say 16384 messages with calls", q).kind, ENGINE_ERROR);
        for (size_t i = 0; i < ENGINE_MAX_MESSAGES; i++)
                messages[i] = (struct engine_message){
                        .role = ENGINE_USER, .text = "Hello.", .text_size = 6};
        q.n_messages = 12;
        o = run("say 12 messages", q);
        if (o.kind != ENGINE_DONE)
                fail_msg("12 messages: %s", o.err.msg);
}

static struct outcome constrained(
        const char *what, uint64_t conv, enum engine_constraint kind, const char *text) {
        struct engine_request q = say(conv, "Hello.", 6, 40);

        q.ignore_eos = false;
        q.constraint = kind;
        q.constraint_text = text;
        q.constraint_size = strlen(text);
        return run(what, q);
}

/* The vocabulary's trie, compiling, masks, states; and texts that become much when compiled. */
static void constraint_cases(uint64_t conv) {
        size_t n = 0;

        n += (size_t)sprintf(large, "{\"enum\":[");
        for (int i = 0; i < 9000; i++)
                n += (size_t)sprintf(large + n, "%s\"value %d of many\"", i ? "," : "", i);
        sprintf(large + n, "]}");
        assert_int_equal(
                constrained("a long schema", conv, ENGINE_CONSTRAINT_JSON_SCHEMA, large).kind,
                ENGINE_DONE);
        assert_int_equal(constrained("any JSON", conv, ENGINE_CONSTRAINT_JSON_SCHEMA, "{}").kind,
                ENGINE_DONE);
        assert_int_equal(
                constrained("any JSON again", conv, ENGINE_CONSTRAINT_JSON_SCHEMA, "{}").kind,
                ENGINE_DONE);
        n = (size_t)sprintf(large, "root ::= \"x\"");
        for (int i = 0; i < 150; i++)
                n += (size_t)sprintf(large + n, " (\"%0*d\"){2} r", 1000, i);
        sprintf(large + n, "\nr ::= \"b\"\n");
        assert_int_equal(
                constrained("too many nodes", conv, ENGINE_CONSTRAINT_GBNF, large).err.code,
                ERR_TOO_LARGE);
        n = (size_t)sprintf(large, "{\"allOf\":[");
        for (int i = 0; i < 40; i++)
                n += (size_t)sprintf(large + n, "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}",
                        i ? "," : "", i, i + 1000);
        sprintf(large + n, "]}");
        assert_int_equal(
                constrained("too many rules", conv, ENGINE_CONSTRAINT_JSON_SCHEMA, large).err.code,
                ERR_TOO_LARGE);
        fill_words();
}

/* Nobody takes the events for a while. */
static void unread_case(uint64_t conv, uint32_t n_logprobs) {
        struct engine_request q = say(conv, "Tell me a story.", 16, 400);
        uint64_t handle;
        struct outcome o;

        q.n_logprobs = n_logprobs;
        q.want_logprobs = true;
        begin(q.verb);
        handle = submit(&q);
        erig_settle(engine);
        engine_cancel(engine, handle);
        o = wait_for(handle);
        if (o.kind != ENGINE_DONE)
                fail_msg("a reply with %u alternatives: %s", n_logprobs, o.err.msg);
        end("a reply that nobody reads");
}

/* The same of notices. */
static void watch_case(void) {
        struct engine_request q = {
                .verb = ENGINE_WATCH, .tell_pressure = true, .cursor = "a cursor of some length"};
        uint64_t handle;

        begin(q.verb);
        handle = submit(&q);
        for (uint64_t i = 0; i < 10000; i++)
                engine_note_pressure(engine, true, i);
        erig_settle(engine);
        engine_cancel(engine, handle);
        assert_int_equal(wait_for(handle).kind, ENGINE_EMPTY);
        end("notices that nobody reads");
}

/* With this, what is imported has another vocabulary, and perhaps much said in it. */
static enum { OURS, FOREIGN, LARGE_MESSAGE, LARGE_REPLY } imports;
int __real_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        struct store_turn changed[64];

        if (imports != OURS)
                c->vocab = 4711;
        assert_true(imports == OURS || n_turns <= 64);
        for (size_t i = 0; imports >= LARGE_MESSAGE && i < n_turns; i++) {
                changed[i] = turns[i];
                if ((turns[i].finish != 0) == (imports == LARGE_REPLY)) {
                        changed[i].text = large;
                        changed[i].text_size = imports == LARGE_REPLY ? MIB / 4 : MIB;
                }
        }
        return __real_store_conv_create(
                s, c, imports < LARGE_MESSAGE ? turns : changed, n_turns, tokens, n_tokens, e);
}

static void transfer_case(uint64_t conv, bool without_memory) {
        static uint8_t file[32 * MIB];
        struct engine_request q = {
                .verb = ENGINE_EXPORT, .conv_id = conv, .without_memory = without_memory};
        struct outcome o = run("export", q);

        assert_int_equal(o.kind, ENGINE_EXPORTED);
        assert_true(o.size <= sizeof(file));
        assert_int_equal(pread(o.fd, file, o.size, 0), o.size);
        close(o.fd);
        q = (struct engine_request){.verb = ENGINE_IMPORT};
        q.fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(pwrite(q.fd, file, o.size, 0), o.size);
        assert_int_equal(fcntl(q.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
        o = run(without_memory ? "import" : "import with memory", q);
        assert_int_equal(o.kind, ENGINE_CONV);
        if (without_memory) {
                assert_int_equal(verb("close", ENGINE_CLOSE, o.conv).kind, ENGINE_EMPTY);
                imports = FOREIGN;
                o = run("import for another model", q);
                imports = OURS;
                assert_int_equal(o.kind, ENGINE_CONV);
                assert_int_equal(verb("carry", ENGINE_CARRY, o.conv).kind, ENGINE_CONV);
        }
        close(q.fd);
        assert_int_equal(verb("close", ENGINE_CLOSE, o.conv).kind, ENGINE_EMPTY);
}

/* A few megabytes are written anew; then they prove too long. */
static void carry_case(void) {
        struct engine_request q = say(0, "Hello.", 6, 4);
        struct outcome o = verb("open", ENGINE_OPEN, 0);

        q.conv_id = o.conv;
        for (int i = 0; i < 3; i++)
                assert_int_equal(run("say", q).kind, ENGINE_DONE);
        q = (struct engine_request){
                .verb = ENGINE_EXPORT, .conv_id = o.conv, .without_memory = true};
        fill_words();
        for (imports = LARGE_MESSAGE; imports <= LARGE_REPLY; imports++) {
                static uint8_t file[MIB];
                struct engine_request in = {.verb = ENGINE_IMPORT};
                uint64_t conv;

                o = run("export", q);
                assert_int_equal(pread(o.fd, file, o.size, 0), o.size);
                close(o.fd);
                in.fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                assert_int_equal(pwrite(in.fd, file, o.size, 0), o.size);
                assert_int_equal(
                        fcntl(in.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
                /* One stretch that tokens reach across everywhere: merging takes memory for it. */
                for (size_t i = 0; imports == LARGE_REPLY && i < MIB; i++)
                        large[i] = "er"[i % 2];
                o = run("import much for another model", in);
                close(in.fd);
                assert_int_equal(o.kind, ENGINE_CONV);
                conv = o.conv;
                o = verb("carry 3 MiB", ENGINE_CARRY, conv);
                assert_int_equal(o.err.code, ERR_CONTEXT);
                assert_int_equal(verb("close", ENGINE_CLOSE, conv).kind, ENGINE_EMPTY);
        }
        imports = OURS;
}

/* As much as may be noted about a conversation, in all places where it is held. */
static void about_cases(uint64_t conv) {
        static char metadata[ABOUT_METADATA_MAX + 1], names[ABOUT_TAGS_MAX][ABOUT_TAG_MAX + 1];
        static char title[ABOUT_TITLE_MAX + 1];
        const char *tags[ABOUT_TAGS_MAX];
        const struct about most = {.has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA,
                .title = title,
                .tags = tags,
                .n_tags = ABOUT_TAGS_MAX,
                .metadata = metadata};
        struct engine_request q = {.verb = ENGINE_UPDATE, .conv_id = conv, .about = &most};

        memset(title, 't', ABOUT_TITLE_MAX);
        for (int i = 0; i < ABOUT_TAGS_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "%0*d", ABOUT_TAG_MAX, i);
                tags[i] = names[i];
        }
        memset(metadata, 'm', ABOUT_METADATA_MAX);
        memcpy(metadata, "{\"k\":\"", 6);
        memcpy(metadata + ABOUT_METADATA_MAX - 2, "\"}", 2);
        assert_int_equal(run("note much", q).kind, ENGINE_CONV);
        assert_int_equal(verb("get what is noted", ENGINE_GET, conv).kind, ENGINE_CONV);
        q = (struct engine_request){.verb = ENGINE_UPDATE,
                .conv_id = conv,
                .about = &(struct about){.has = most.has, .title = "", .metadata = ""}};
        assert_int_equal(run("note nothing", q).kind, ENGINE_CONV);
}

static void conversation_cases(uint64_t conv) {
        struct engine_request get = {
                .verb = ENGINE_GET, .conv_id = conv, .want_turns = true, .want_tokens = true};
        struct engine_request cut = {.verb = ENGINE_FORK,
                .conv_id = conv,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};
        struct outcome o = run("get", get);

        assert_int_equal(o.kind, ENGINE_CONV);
        assert_true(o.n > 1000);
        o = run("fork", cut);
        assert_int_equal(o.kind, ENGINE_CONV);
        assert_int_equal(verb("close a fork", ENGINE_CLOSE, o.conv).kind, ENGINE_EMPTY);
        assert_int_equal(verb("evict", ENGINE_EVICT, conv).kind, ENGINE_CONV);
        assert_int_equal(verb("warm", ENGINE_WARM, conv).kind, ENGINE_CONV);
        assert_int_equal(verb("publish", ENGINE_PUBLISH, conv).kind, ENGINE_CONV);
        assert_int_equal(verb("update", ENGINE_UPDATE, conv).kind, ENGINE_CONV);
        about_cases(conv);
        assert_int_equal(verb("cancel", ENGINE_CANCEL, conv).kind, ENGINE_EMPTY);
        transfer_case(conv, true);
        transfer_case(conv, false);
}

/* Messages that do not fit together: old ones leave the memory, and stay in the transcript. */
static void shift_case(void) {
        struct engine_request q = {.verb = ENGINE_OPEN, .overflow = ENGINE_OVERFLOW_SHIFT};
        struct outcome o = run("open a conversation that shifts", q);
        uint64_t conv = o.conv;

        assert_int_equal(o.kind, ENGINE_CONV);
        fill_words();
        for (int i = 0; i < 6; i++)
                assert_int_equal(run("say, and drop old turns", say(conv, large, 3000, 4)).kind,
                        ENGINE_DONE);
        q = (struct engine_request){
                .verb = ENGINE_FORK, .conv_id = conv, .at_turn = 4, .at_position = ENGINE_UNSET};
        o = run("fork inside of what was dropped", q);
        assert_int_equal(o.kind, ENGINE_CONV);
        assert_int_equal(verb("close a fork", ENGINE_CLOSE, o.conv).kind, ENGINE_EMPTY);
        transfer_case(conv, false);
        q.verb = ENGINE_REWIND;
        assert_int_equal(run("rewind to there", q).kind, ENGINE_CONV);
        assert_int_equal(verb("close", ENGINE_CLOSE, conv).kind, ENGINE_EMPTY);
}

static void small_cases(void) {
        struct engine_request list = {.verb = ENGINE_LIST, .limit = ENGINE_MAX_LIST};
        struct outcome o = run("list", list);

        assert_int_equal(o.kind, ENGINE_CONVS);
        assert_true(o.n > 50);
        list.order = ENGINE_ORDER_UPDATED;
        list.search = "gr hou";
        o = run("search", list);
        assert_int_equal(o.kind, ENGINE_CONVS);
        assert_true(o.n > 0);
        list.search = NULL;
        list.tag = "no such tag";
        assert_int_equal(run("list by tag", list).n, 0);
        assert_int_equal(verb("stats", ENGINE_STATS, 0).kind, ENGINE_STATS_RESULT);
        assert_int_equal(verb("model info", ENGINE_MODEL_INFO, 0).kind, ENGINE_INFO);
        assert_int_equal(
                verb("a conversation that is not there", ENGINE_GET, 999999).kind, ENGINE_ERROR);
}

static void test_every_verb(void **state) {
        struct engine_options o = erig_options(512 * MIB);
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = 1, .at_position = ENGINE_UNSET};
        struct erig r;
        uint64_t conv;

        erig_need_model();
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        take_engine(&r);
        conv = erig_new(&r, NULL, NULL);
        /* What comes with the first use of something stays. */
        fill_words();
        wait_for(submit(&(struct engine_request){
                .verb = ENGINE_TOKENIZE, .text = large, .text_size = 1000}));
        wait_for(submit(&(struct engine_request){.verb = ENGINE_LIST}));
        tokenize_cases();
        input_cases(conv);
        messages_cases(conv);
        constraint_cases(erig_new(&r, NULL, NULL));
        unread_case(erig_new(&r, NULL, NULL), 0);
        unread_case(erig_new(&r, NULL, NULL), 20);
        unread_case(erig_new(&r, NULL, NULL), ENGINE_MAX_LOGPROBS);
        watch_case();
        conversation_cases(conv);
        carry_case();
        shift_case();
        assert_true(erig_stat(&r, "memory_shifts") > 0);
        for (int i = 0; i < 60; i++)
                erig_new(&r, NULL, NULL);
        small_cases();
        /* Loaded from the register. */
        erig_restart(&r, true);
        take_engine(&r);
        assert_int_equal(verb("load", ENGINE_UPDATE, conv).kind, ENGINE_CONV);
        assert_int_equal(verb("load and warm", ENGINE_WARM, conv).kind, ENGINE_CONV);
        rewind.conv_id = conv;
        assert_int_equal(run("rewind", rewind).kind, ENGINE_CONV);
        assert_int_equal(verb("close it", ENGINE_CLOSE, conv).kind, ENGINE_EMPTY);
        erig_close(&r);
}

/* Memory of one or several classes, with checkpoints: what grows with the tokens is charged, when they are
 * computed, read from disk, found on disk for somebody else, and cut. */
static void kind_case(const char *arch) {
        struct engine_options o = erig_options(128 * MIB);
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = 9, .at_position = ENGINE_UNSET};
        struct engine_request at = {
                .verb = ENGINE_FORK, .at_turn = ENGINE_UNSET, .at_position = ENGINE_UNSET};
        struct engine_request q;
        char path[] = "/tmp/confab-charge-XXXXXX";
        struct erig r;
        uint64_t conv, fork;

        close(mkstemp(path));
        assert_int_equal(tiny_model_write_long(path, arch, 32768), 0);
        o.model_path = path;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        take_engine(&r);
        conv = at.conv_id = erig_new(&r, NULL, "Be kind.");
        fill_words();
        /* The pool's first slabs stay. */
        q = say(erig_new(&r, NULL, NULL), "So?", 3, 4);
        wait_for(submit(&q));
        assert_int_equal(run("say 24000 bytes", say(conv, large, 24000, 16)).kind, ENGINE_DONE);
        for (int i = 0; i < 30; i++)
                assert_int_equal(run("say a word", say(conv, "So?", 3, 4)).kind, ENGINE_DONE);
        conversation_cases(conv);
        shift_case();
        fork = run("fork", at).conv;
        erig_restart(&r, true);
        take_engine(&r);
        assert_int_equal(verb("close a fork", ENGINE_CLOSE, fork).kind, ENGINE_EMPTY);
        assert_int_equal(verb("load", ENGINE_UPDATE, conv).kind, ENGINE_CONV);
        q = say(erig_new(&r, NULL, "Be kind."), large, 24000, 4);
        assert_int_equal(run("say what another has said", q).kind, ENGINE_DONE);
        assert_int_equal(run("go on from disk", say(conv, "So?", 3, 4)).kind, ENGINE_DONE);
        rewind.conv_id = conv;
        assert_int_equal(run("rewind", rewind).kind, ENGINE_CONV);
        assert_int_equal(run("go on from before", say(conv, "So?", 3, 4)).kind, ENGINE_DONE);
        /* All of it has records, which the register lists when it is closed. */
        assert_int_equal(verb("evict", ENGINE_EVICT, conv).kind, ENGINE_CONV);
        assert_int_equal(verb("close it", ENGINE_CLOSE, conv).kind, ENGINE_EMPTY);
        erig_close(&r);
        unlink(path);
}

static void test_attention(void **state) {
        kind_case("llama");
}

static void test_states(void **state) {
        kind_case("mamba");
}

static void test_states_and_attention(void **state) {
        kind_case("granitehybrid");
}

static void test_windows(void **state) {
        kind_case("gemma3");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_verb),
                cmocka_unit_test(test_attention),
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_states_and_attention),
                cmocka_unit_test(test_windows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
