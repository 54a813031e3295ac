/* SPDX-License-Identifier: MIT */
/*
 * Every allocation fails once: the store's own (through the wrapped malloc) and, of SQLite's (through its
 * memory methods, which use the same counter), every EACH-th. A failed call has changed nothing.
 */
#include "../../unit/store/store-fixture.h"
#include "base/file.h"
#include "fault/loop.h"
#include "util/depth.h"
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

/* One call of SQLite's makes dozens of allocations, which all end in the same -ERR_NOMEM of the store. Which
 * of them may fail is another part in each attempt. A sanitizer looks at the store's own code. */
#define EACH test_depth(41, 13, 7)

#define MAX_ALLOCATIONS 100000

void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);

static bool may_fail(void) {
        static unsigned n;

        return n++ % EACH == 0;
}

static void *m_malloc(int n) {
        return may_fail() ? malloc((size_t)n) : __real_malloc((size_t)n);
}
static void m_free(void *p) {
        free(p);
}
static void *m_realloc(void *p, int n) {
        return may_fail() ? realloc(p, (size_t)n) : __real_realloc(p, (size_t)n);
}
static int m_size(void *p) {
        return (int)malloc_usable_size(p);
}
static int m_roundup(int n) {
        return (n + 7) & ~7;
}
static int m_init(void *p) {
        return SQLITE_OK;
}
static void m_shutdown(void *p) {
}

/* SQLite's calls come here: thousands of registers are made, and none must survive a power cut. */
int fsync(int fd) {
        return 0;
}
int fdatasync(int fd) {
        return 0;
}

#define N_STEPS 12

static int link_blocks(struct store *s, struct err *e) {
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        struct store_meter meter = {"written", 5};
        struct store_record links[20] = {};
        struct fingerprint model = {1, 2};
        int32_t tokens[32];
        uint64_t hash = 0;

        for (uint32_t i = 0; i < 20; i++) {
                uint32_t n = i < 3 ? 32 : 4;

                for (uint32_t k = 0; k < n; k++)
                        tokens[k] = fixture_token(32 * i + k);
                hash = hash64_chain_tokens(tokens, n, hash);
                links[i] = (struct store_record){.index = i,
                        .offset = 4096 * i,
                        .stored_size = 4096,
                        .n_tokens = n,
                        .token_hash = hash};
        }
        return store_link(s, 1, &model, &fixture_shape, links, 4, &meter, 1, &gone, e);
}

static int search(struct store *s, struct err *e) {
        const struct store_list list = {
                .owner = 1, .by_update = true, .search = "te tex", .tag = NULL};
        struct store_listed found[2];
        bool more;
        size_t n;
        int r = store_list(s, &list, NULL, NULL, found, 2, &n, &more, e);

        if (r == 0)
                assert_int_equal(n, 1);
        for (size_t i = 0; i < 2; i++) {
                free(found[i].about);
                free(found[i].hit.snippet);
        }
        return r;
}

/* Calls that only look. */
static int look(struct store *s, struct err *e) {
        _cleanup_(store_turns_deinit) struct store_turns ts = {};
        _cleanup_(store_reading_deinit) struct store_reading x = {};
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        _cleanup_(freep) struct about *about = NULL;
        struct fingerprint model = {1, 2};
        struct store_census census;
        struct store_prefix p = {};
        uint64_t hashes[3], prev = 0;
        struct store_conv list[3];
        int32_t tokens[96];
        int64_t meter = 0;
        size_t n;
        int r;

        for (uint32_t i = 0; i < 96; i++)
                tokens[i] = fixture_token(i);
        for (int i = 0; i < 3; i++)
                prev = hashes[i] = hash64_chain_tokens(tokens + 32 * i, 32, prev);
        r = store_turns(s, 1, true, &ts, e);
        if (r == 0)
                r = store_read(s, 1, 1, NULL, STORE_READ_TURNS | STORE_READ_FIGURES, &x, e);
        if (r == 0)
                assert_non_null(x.turns.turns[0].figures);
        if (r == 0)
                r = store_links(s, 1, &gone, e);
        if (r == 0)
                r = fixture_list(s, 1, 0, list, 3, &n, e);
        if (r == 0)
                r = store_about(s, 1, NULL, NULL, &about, e);
        if (r == 0)
                r = search(s, e);
        if (r == 0)
                r = store_meter_get(s, "written", &meter, e);
        if (r == 0)
                r = store_prefix_find(s, 1, &model, 0, &fixture_shape, tokens, hashes, 3, &p, e);
        if (r < 0)
                return r;
        assert_int_equal(meter, 5);
        assert_int_equal(p.n, 3);
        store_prefix_deinit(&p);
        r = store_check(s, NULL, NULL, &census, e);
        if (r == 0)
                assert_int_equal(census.n_findings, 0);
        return r;
}

/* Memory of all classes: written, found, let go. */
static int classes(struct store *s, struct err *e) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 7, .window = 40};
        static const struct store_cell cells[] = {
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 3}, {2, 95}, {2, 98}, {2, 99}};
        _cleanup_(store_gone_deinit) struct store_gone gone = {}, dropped = {};
        _cleanup_(store_reclaimed_deinit) struct store_reclaimed got = {}, lost = {};
        struct store_record links[10] = {};
        struct fingerprint model = {1, 2};
        struct store_prefix p = {};
        uint64_t hashes[4], prev = 0;
        int32_t tokens[100];
        int r;

        for (uint32_t i = 0; i < 100; i++)
                tokens[i] = fixture_token(i);
        for (int i = 0; i < 4; i++)
                prev = hashes[i] = hash64_chain_tokens(tokens + 32 * i, i < 3 ? 32 : 4, prev);
        for (int i = 0; i < 10; i++) {
                bool state = cells[i].block_class == STORE_CLASS_STATE;
                uint32_t block = state ? cells[i].index / 32 : cells[i].index;

                links[i] = (struct store_record){.block_class = cells[i].block_class,
                        .index = cells[i].index,
                        .stored_size = 4096,
                        .n_tokens = state       ? 1
                                    : block < 3 ? 32
                                                : 4,
                        .token_hash = cells[i].index == 98
                                              ? hash64_chain_tokens(tokens + 96, 3, hashes[2])
                                              : hashes[block]};
        }
        r = store_link(s, 1, &model, &shape, links, 10, NULL, 0, &gone, e);
        if (r == 0)
                r = store_prefix_find(s, 1, &model, 0, &shape, tokens, hashes, 3, &p, e);
        if (r < 0)
                return r;
        assert_int_equal(p.n, 3);
        store_prefix_deinit(&p);
        r = store_unlink_cells(s, 1, &cells[8], 1, &dropped, e);
        /* What the fork has is used up first, then this. */
        if (r == 0)
                r = store_reclaim(s, 1, 4 * 4096, 0, &got, e);
        if (r < 0)
                return r;
        assert_true(got.bytes >= 4 * 4096);
        return store_forget_record(s, links[9].id, &lost, e);
}

/* The fork gets other tokens, and has no logit biases any more. */
static int carry(struct store *s, struct err *e) {
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        int32_t tokens[] = {1, 2, 3};
        uint32_t end = 3;
        struct store_carried x = {
                .vocab = 7, .ends = &end, .n_turns = 1, .tokens = tokens, .n_tokens = 3};
        uint64_t revision;

        return store_carry(s, 2, &x, &revision, &gone, e);
}

static const char *const some_tags[] = {"one", "two"};
static const struct about some = {.has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA,
        .title = "A title",
        .tags = some_tags,
        .n_tags = 2,
        .metadata = "{\"k\": \"a string\"}"};

static int run_step(struct store *s, unsigned step, struct err *e) {
        struct store_conv c = {
                .owner = 1, .name = "a", .sampling = {.has = 0x3ff, .n_biases = 3}, .about = &some};
        struct store_conv child = {.name = "b"};
        _cleanup_(store_gone_deinit) struct store_gone gone = {};
        _cleanup_(store_reclaimed_deinit) struct store_reclaimed got = {};
        struct store_turn last = {.role = 2, .end = 70, .text = "te", .text_size = 2};
        struct store_meter meter = {"day", 1};
        uint64_t revision;
        int r;

        switch (step) {
        case 0:
                return store_conv_create(s, &c, NULL, 0, NULL, 0, e);
        case 1:
                return fixture_append(s, 1, 2, 100, "text", e);
        case 2:
                return link_blocks(s, e);
        case 3:
                return store_conv_fork(s, 1, 1, &last, NULL, &child, e);
        case 4:
                return look(s, e);
        case 5:
                return store_conv_publish(s, 1, 40, e);
        case 6:
                return store_meter_set(s, &meter, 1, e);
        case 7:
                r = store_reclaim(s, 1, 2 * 4096, 0, &got, e);
                if (r == 0)
                        assert_int_equal(got.gone.n, 2);
                return r;
        case 8:
                return classes(s, e);
        case 9:
                return carry(s, e);
        case 10:
                return store_rewind(s, 1, 0, NULL, NULL, &revision, &gone, e);
        default:
                return store_conv_set_private(s, 1, true, e);
        }
}

static void expect_nomem(int r, const struct err *e) {
        if (r != -ERR_NOMEM)
                print_error("%d: %s\n", r, e->msg);
        assert_int_equal(r, -ERR_NOMEM);
}

/* The state after @done steps, told by counts. */
static void expect_state(struct store *s, unsigned done) {
        uint64_t n = 0;
        struct err e;

        assert_int_equal(store_conv_count(s, 1, &n, &e), 0);
        assert_int_equal(n, done == 0 ? 0 : done < 4 ? 1 : 2);
        if (done)
                fixture_verify(
                        s, 1, done == 1 || done >= 11 ? 0 : 1, done == 1 || done >= 11 ? 0 : 100);
        if (done >= 4) {
                struct about *about = NULL;
                struct store_conv c;

                assert_int_equal(store_about(s, 2, NULL, NULL, &about, &e), 0);
                assert_int_equal(about->n_tags, 2);
                free(about);
                assert_int_equal(store_conv_get(s, 1, 2, NULL, &c, &e), 0);
                assert_int_equal(c.n_tokens, done >= 10 ? 3 : 70);
                assert_int_equal(c.vocab, done >= 10 ? 7 : 0);
                assert_int_equal(c.sampling.has, done >= 10 ? 0x1ff : 0x3ff);
        }
}

/* A new register, once made and then copied: making one takes longer than the history. */
static void new_register(struct fixture *f) {
        static uint8_t data[1 << 20];
        static size_t size;
        struct stat st;
        int fd;

        if (size == 0) {
                fixture_open(f);
                f->s = store_free(f->s);
                fd = open(f->path, O_RDONLY | O_CLOEXEC);
                assert_int_equal(fstat(fd, &st), 0);
                assert_true(st.st_size > 0 && (size_t)st.st_size <= sizeof(data));
                assert_int_equal(file_pread(fd, data, (size_t)st.st_size, 0, NULL), 0);
                size = (size_t)st.st_size;
        } else {
                fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                assert_int_equal(file_pwrite(fd, data, size, 0, NULL), 0);
        }
        close(fd);
        fixture_open(f);
}

/* One failure somewhere in the history; what it hit is asked for again. */
static void history(struct fixture *f, struct fault_loop *loop) {
        struct err e = {};
        bool failed = false;
        int r;

        new_register(f);
        fault_loop_arm(loop);
        for (unsigned i = 0; i < N_STEPS; i++) {
                r = run_step(f->s, i, &e);
                if (r < 0) {
                        expect_nomem(r, &e);
                        assert_false(failed);
                        failed = true;
                        expect_state(f->s, i);
                        r = run_step(f->s, i, &e);
                }
                if (r < 0)
                        print_error("step %u: %s\n", i, e.msg);
                assert_int_equal(r, 0);
        }
        fault_loop_disarm(loop);
        /* SQLite survives some failures without telling. */
        assert_true(loop->hit || !failed);
        expect_state(f->s, N_STEPS);
}

/* One failure while a new register is made, or an old one is opened. */
static void opening(struct fixture *f, struct fault_loop *loop) {
        struct err e = {};
        int r;

        fault_loop_arm(loop);
        r = store_open(&f->s, f->path, &e);
        if (r < 0) {
                expect_nomem(r, &e);
                assert_null(f->s);
                r = store_open(&f->s, f->path, &e);
        }
        fault_loop_disarm(loop);
        assert_int_equal(r, 0);
        assert_int_equal(run_step(f->s, 0, &e), 0);
}

static void each_allocation(void (*f)(struct fixture *, struct fault_loop *)) {
        struct fault_loop loop = {.at_least = 101, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                void *own = NULL;

                fixture_setup_closed(&own);
                f(own, &loop);
                fixture_teardown(&own);
        }
        print_message("%ld allocations failed\n", loop.n);
}

static void test_history(void **state) {
        each_allocation(history);
}

static void test_opening(void **state) {
        each_allocation(opening);
}

int main(void) {
        static const sqlite3_mem_methods methods = {
                m_malloc, m_free, m_realloc, m_size, m_roundup, m_init, m_shutdown, NULL};
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_history),
                cmocka_unit_test(test_opening),
        };

        /* Without its page buffers and lookaside, every allocation is counted on its own. */
        if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK ||
                sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK)
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
