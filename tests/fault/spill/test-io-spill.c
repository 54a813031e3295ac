/* SPDX-License-Identifier: MIT */
/* Each system call of a small program fails in turn, with each of several errors: the affected call
 * reports it, the accounts match the files, everything else works, and a restart finds the live
 * records. */
#include <errno.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spill/shared.h"
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

static long fault_at = -1;
static int fault_errno;
static const char *fault_hit;
static bool stop_there; /* the process ends instead */
enum { STOPPED = 99 };
static bool full_after_header, dribble, refuse_direct;
static off_t bad_at; /* a byte that cannot be read; 0: none */

static bool fails(const char *name) {
        if (fault_at < 0 || fault_at-- > 0)
                return false;
        if (stop_there)
                _exit(STOPPED);
        fault_hit = name;
        errno = fault_errno;
        return true;
}

#define WRAP(name, params, args)                                                                   \
        int __real_##name params;                                                                  \
        int __wrap_##name params;                                                                  \
        int __wrap_##name params {                                                                 \
                return fails(#name) ? -1 : __real_##name args;                                     \
        }
/* With 64-bit offsets a call goes by another name. */
#define WRAP_BOTH(name, params, args) WRAP(name, params, args) WRAP(name##64, params, args)

WRAP_BOTH(openat, (int fd, const char *path, int flags, mode_t mode), (fd, path, flags, mode))
/* Giving space back may take its time: these two wait while the gate is closed, but not for ever. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool closed, held, gave_up;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static bool no_truncate;

static void pass_gate(void) {
        struct timespec ts;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &ts);
        ts.tv_sec += 10;
        pthread_mutex_lock(&gate.lock);
        gate.held = gate.closed;
        pthread_cond_broadcast(&gate.changed);
        while (gate.closed && r == 0)
                r = pthread_cond_timedwait(&gate.changed, &gate.lock, &ts);
        gate.gave_up = gate.gave_up || r != 0;
        pthread_mutex_unlock(&gate.lock);
}

static void set_gate(bool closed) {
        pthread_mutex_lock(&gate.lock);
        gate.closed = closed;
        gate.held = gate.held && closed;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
}

#define WRAP_SLOW(name, params, args, refused)                                                     \
        int __real_##name params;                                                                  \
        int __wrap_##name params;                                                                  \
        int __wrap_##name params {                                                                 \
                if (refused) {                                                                     \
                        errno = EOPNOTSUPP;                                                        \
                        return -1;                                                                 \
                }                                                                                  \
                pass_gate();                                                                       \
                return fails(#name) ? -1 : __real_##name args;                                     \
        }
WRAP_SLOW(ftruncate, (int fd, off_t size), (fd, size), no_truncate)
WRAP_SLOW(ftruncate64, (int fd, off_t size), (fd, size), no_truncate)
WRAP_SLOW(fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), false)
WRAP_SLOW(fallocate64, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), false)
WRAP_BOTH(fstatat, (int fd, const char *p, struct stat *st, int flags), (fd, p, st, flags))
WRAP(unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(flock, (int fd, int op), (fd, op))
WRAP(mincore, (void *map, size_t size, unsigned char *ret), (map, size, ret))

#define WRAP_MMAP(name)                                                                            \
        void *__real_##name(void *at, size_t size, int prot, int flags, int fd, off_t offset);     \
        void *__wrap_##name(void *at, size_t size, int prot, int flags, int fd, off_t offset);     \
        void *__wrap_##name(void *at, size_t size, int prot, int flags, int fd, off_t offset) {    \
                return fails(#name) ? MAP_FAILED                                                   \
                                    : __real_##name(at, size, prot, flags, fd, offset);            \
        }
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)

static uint64_t fake_n_free; /* pages free on the disk; 0: the truth */

#define WRAP_FREE(name)                                                                            \
        int __real_##name(int fd, struct statvfs *v);                                              \
        int __wrap_##name(int fd, struct statvfs *v);                                              \
        int __wrap_##name(int fd, struct statvfs *v) {                                             \
                int r = fails(#name) ? -1 : __real_##name(fd, v);                                  \
                                                                                                   \
                if (r == 0 && fake_n_free > 0) {                                                   \
                        v->f_bavail = fake_n_free;                                                 \
                        v->f_frsize = 4096;                                                        \
                }                                                                                  \
                return r;                                                                          \
        }
WRAP_FREE(fstatvfs)
WRAP_FREE(fstatvfs64)

static bool touches(const struct iovec *iov, int n, off_t at, off_t byte) {
        off_t end = at;

        for (int i = 0; i < n; i++)
                end += (off_t)iov[i].iov_len;
        return byte > 0 && at <= byte && byte < end;
}

#define WRAP_IO(name)                                                                              \
        ssize_t __real_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at) {                  \
                struct iovec few = {iov[0].iov_base, MIN(iov[0].iov_len, (size_t)777)};            \
                                                                                                   \
                if (full_after_header && iov[0].iov_len != 128) {                                  \
                        errno = ENOSPC;                                                            \
                        return -1;                                                                 \
                }                                                                                  \
                if (fails(#name))                                                                  \
                        return -1;                                                                 \
                if (touches(iov, n, at, bad_at)) {                                                 \
                        errno = EIO;                                                               \
                        return -1;                                                                 \
                }                                                                                  \
                return full_after_header || dribble ? __real_##name(fd, &few, 1, at)               \
                                                    : __real_##name(fd, iov, n, at);               \
        }
WRAP_IO(preadv)
WRAP_IO(preadv64)
WRAP_IO(pwritev)
WRAP_IO(pwritev64)

/* Reads past the page cache: how many there were, and of these in flight. */
static unsigned n_direct, n_submitted;

static void spoil(struct io_event *events, long n) {
        for (long i = 0; i < n; i++) {
                const struct iocb *call = (const struct iocb *)(uintptr_t)events[i].obj;
                struct iovec iov = {NULL, call->aio_nbytes};

                if (touches(&iov, 1, (off_t)call->aio_offset, bad_at))
                        events[i].res = -EIO;
                else if (refuse_direct)
                        events[i].res = -EINVAL;
                else if (dribble)
                        events[i].res = 777;
        }
}

#define WRAP_PREAD(name)                                                                           \
        ssize_t __real_##name(int fd, void *data, size_t size, off_t at);                          \
        ssize_t __wrap_##name(int fd, void *data, size_t size, off_t at);                          \
        ssize_t __wrap_##name(int fd, void *data, size_t size, off_t at) {                         \
                struct iovec iov = {data, size};                                                   \
                                                                                                   \
                if (fails(#name))                                                                  \
                        return -1;                                                                 \
                n_direct++;                                                                        \
                if (refuse_direct || touches(&iov, 1, at, bad_at)) {                               \
                        errno = refuse_direct ? EINVAL : EIO;                                      \
                        return -1;                                                                 \
                }                                                                                  \
                return __real_##name(fd, data, dribble ? MIN(size, (size_t)4096) : size, at);      \
        }
WRAP_PREAD(pread)
WRAP_PREAD(pread64)

/* What beginning a read takes, and waiting for one. */
static useconds_t begin_usec, wait_usec;
static size_t in_flight, most_in_flight; /* bytes */

static void note_flight(long number, const long *a, long n) {
        const struct io_event *events = (const struct io_event *)a[3];

        if (number == SYS_io_submit && n == 1)
                in_flight += ((struct iocb **)a[2])[0]->aio_nbytes;
        for (long i = 0; number == SYS_io_getevents && i < n; i++)
                in_flight -= ((const struct iocb *)(uintptr_t)events[i].obj)->aio_nbytes;
        most_in_flight = MAX(most_in_flight, in_flight);
}

/* Bytes that went out of the processor's caches. */
static size_t n_evicted;

void __real_spill_evict(uint8_t *data, size_t size);
void __wrap_spill_evict(uint8_t *data, size_t size);
void __wrap_spill_evict(uint8_t *data, size_t size) {
        n_evicted += size;
        __real_spill_evict(data, size);
}

/* Pages that are taken from the system before they are written. */
static unsigned n_taken_at_once;
static bool takes_none; /* as before Linux 5.14 */

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice) {
        if (advice != MADV_POPULATE_WRITE)
                return __real_madvise(at, size, advice);
        n_taken_at_once++;
        if (!takes_none)
                return __real_madvise(at, size, advice);
        errno = EINVAL;
        return -1;
}

/* The calls of AIO have no functions of their own. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
        long a[5], n;
        va_list ap;

        va_start(ap, number);
        for (size_t i = 0; i < ARRAY_SIZE(a); i++)
                a[i] = va_arg(ap, long);
        va_end(ap);
        if (number != SYS_io_destroy && fails("syscall"))
                return -1;
        if (number == SYS_io_getevents && wait_usec > 0)
                usleep(wait_usec);
        n = __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
        if (number == SYS_io_submit && begin_usec > 0)
                usleep(begin_usec);
        note_flight(number, a, n);
        if (number == SYS_io_submit && n > 0)
                n_direct += (unsigned)n, n_submitted += (unsigned)n;
        if (number == SYS_io_getevents)
                spoil((struct io_event *)a[3], n);
        return n;
}

/* So many times all records are more than one window, so they are read in flight. */
enum { N = 5, MANY = 4 };

struct program {
        struct store t;
        struct spill_ref ref[N];
        bool live[N];
        int n_failed;
        bool closed; /* the store itself could not be opened */
};

static uint8_t raw[BLOCK], back[BLOCK];

static int note(struct program *p, int r) {
        if (r < 0) {
                assert_non_null(fault_hit);
                p->n_failed++;
        }
        return r;
}

static void put(struct program *p, uint32_t i) {
        struct spill_meta m = meta_of(i);
        uint64_t before = store_stats(&p->t).disk_size;

        fill(raw, BLOCK, i == 1 ? FLOATS : RANDOM, i);
        p->live[i] = note(p, store_write(p->t.s, i / 2, &m, raw, BLOCK, &p->ref[i], NULL)) == 0;
        if (!p->live[i])
                assert_int_equal(store_stats(&p->t).disk_size, before);
}

static int get(struct program *p, uint32_t i) {
        struct spill_meta m = meta_of(i);
        int r;

        r = spill_read(p->t.s, &p->ref[i], &m, back, BLOCK, NULL);
        fill(raw, BLOCK, i == 1 ? FLOATS : RANDOM, i);
        if (r == 0)
                assert_memory_equal(raw, back, BLOCK);
        return r;
}

/* All that is live at once. An error of a joined read is no error where each alone can be read. */
static int get_all(struct program *p, size_t n_times) {
        static uint8_t dst[MANY * N][BLOCK];
        struct spill_item items[MANY * N];
        struct spill_stats before = store_stats(&p->t);
        size_t n = 0, n_good = 0;
        int r;

        for (uint32_t i = 0; i < N * n_times; i++)
                if (p->live[i % N])
                        items[n++] = (struct spill_item){
                                .ref = p->ref[i % N], .meta = meta_of(i % N), .dst = dst[i]};
        r = spill_read_batch(p->t.s, items, n, NULL);
        for (size_t k = 0; k < n; k++) {
                uint32_t i = items[k].meta.position;

                if (items[k].r < 0)
                        continue;
                n_good++;
                fill(raw, BLOCK, i == 1 ? FLOATS : RANDOM, i);
                assert_memory_equal(raw, items[k].dst, BLOCK);
        }
        assert_true(n_good + (r < 0) == n);
        assert_int_equal(store_stats(&p->t).n_reads, before.n_reads + n_good);
        return r;
}

static void drop(struct program *p, uint32_t i) {
        bool live = p->live[i];

        /* In the order of a caller: the register forgets it first. */
        p->live[i] = false;
        if (live)
                assert_int_equal(spill_release(p->t.s, &p->ref[i], NULL), 0);
}

static void start(struct program *p) {
        size_t n;

        p->closed = note(p, spill_open(&p->t.s, p->t.dir, &p->t.options, NULL)) < 0;
        for (uint32_t i = 0; i < N && !p->closed; i++)
                if (p->live[i] && note(p, spill_adopt(p->t.s, &p->ref[i], NULL)) < 0)
                        p->live[i] = false;
        if (!p->closed)
                note(p, spill_sweep(p->t.s, &n, NULL));
}

/* All that is live is readable, and nothing is counted twice or left out. */
static void check(struct program *p) {
        uint64_t size = 0, n = 0;

        for (uint32_t i = 0; i < N; i++)
                if (p->live[i]) {
                        assert_int_equal(get(p, i), 0);
                        size += p->ref[i].stored_size;
                        n++;
                }
        assert_int_equal(store_stats(&p->t).n_records, n);
        assert_true(store_stats(&p->t).disk_size >= size);
        if (!fault_hit)
                assert_int_equal(store_stats(&p->t).disk_size, size);
}

static void run(struct program *p) {
        start(p);
        if (p->closed)
                return;
        for (uint32_t i = 0; i < 4; i++)
                put(p, i);
        for (uint32_t i = 0; i < 4; i++)
                if (p->live[i])
                        note(p, get(p, i));
        note(p, get_all(p, 1));
        spill_settle(p->t.s, 0);
        spill_settle(p->t.s, 1);
        note(p, get_all(p, 1));
        note(p, get_all(p, MANY));
        drop(p, 0);
        drop(p, 2);
        drop(p, 3);
        put(p, 4);
        p->t.s = spill_free(p->t.s);
        start(p);
        if (p->closed)
                return;
        put(p, 0);
        if (p->live[1])
                note(p, get(p, 1));
}

/* Whether the call may wait, and so be interrupted. */
static bool may_block(const char *call) {
        static const char *const calls[] = {"openat", "preadv", "pwritev", "pread", "fallocate"};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (strncmp(call, calls[i], strlen(calls[i])) == 0)
                        return true;
        return false;
}

static void test_every_call_may_fail(void **state) {
        static const int errors[] = {EIO, ENOSPC, EROFS, EINTR};
        static const uint64_t ends[] = {20000, BLOCK};

        for (size_t k = 0; k < ARRAY_SIZE(errors); k++) {
                long n;

                for (n = 0;; n++) {
                        struct program p = {0};
                        bool struck;

                        store_make(&p.t);
                        p.t.options.max_open_files = 1;
                        p.t.options.min_free_size = 1;
                        p.t.options.keep_cached = n % 2;
                        store_divide(&p.t.options,
                                (struct spill_layout){.section_ends = ends, .n_sections = 2});
                        fault_errno = errors[k];
                        fault_hit = NULL;
                        fault_at = n;
                        run(&p);
                        fault_at = -1;
                        struck = fault_hit != NULL;
                        /* One fault is one failure, or none where there is another way. A call
                         * that is interrupted is called again, except those that never block. */
                        assert_true(p.n_failed <= 1);
                        if (errors[k] == EINTR && struck && may_block(fault_hit) && p.n_failed > 0)
                                fail_msg("call %ld, %s, was not called again", n, fault_hit);
                        if (!p.closed)
                                check(&p);
                        fault_hit = NULL;
                        p.t.s = spill_free(p.t.s);
                        start(&p);
                        check(&p);
                        for (uint32_t i = 0; i < N; i++)
                                drop(&p, i);
                        assert_int_equal(store_stats(&p.t).disk_size, 0);
                        assert_int_equal(store_stats(&p.t).n_files, 0);
                        store_remove(&p.t);
                        if (!struck)
                                break;
                }
                assert_true(n > 30);
        }
}

/* A process that stops in front of any system call: all that the register knows of is there at the
 * next start, and after the sweep nothing else. */
static void test_stop_anywhere(void **state) {
        struct program *p =
                mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        bool stopped = true;
        long n;

        assert_true(p != MAP_FAILED);
        for (n = 0; stopped; n++) {
                uint64_t size = 0, on_disk = 0;
                int status;
                pid_t pid;

                *p = (struct program){0};
                store_make(&p->t);
                p->t.options.min_free_size = 1;
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        stop_there = true;
                        fault_at = n;
                        run(p);
                        _exit(0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFEXITED(status));
                stopped = WEXITSTATUS(status) == STOPPED;
                assert_true(stopped || WEXITSTATUS(status) == 0);
                p->t.s = NULL;
                start(p);
                check(p);
                for (uint32_t i = 0; i < N; i++)
                        size += p->live[i] ? p->ref[i].stored_size : 0;
                for (uint64_t key = 0; key <= N / 2; key++) {
                        if (store_file_size(&p->t, key) >= 0)
                                store_sync(&p->t, key);
                        on_disk += (uint64_t)store_file_blocks(&p->t, key);
                }
                assert_int_equal(store_stats(&p->t).disk_size, size);
                assert_true(on_disk <= size);
                store_remove(&p->t);
        }
        assert_true(n > 30);
        munmap(p, sizeof(*p));
}

/* The disk is full in the middle of a record: nothing of it stays. */
static void test_full_in_the_middle(void **state) {
        struct program p = {0};
        struct spill_meta m = meta_of(9);
        struct spill_ref ref;
        struct err e;

        store_make(&p.t);
        store_start(&p.t);
        put(&p, 0);
        full_after_header = true;
        fault_hit = "pwritev";
        fill(raw, BLOCK, RANDOM, 9);
        assert_int_equal(store_write(p.t.s, 0, &m, raw, BLOCK, &ref, &e), -ERR_LIMIT);
        assert_non_null(strstr(e.msg, "No space left"));
        assert_int_equal(store_file_size(&p.t, 0), 40960);
        assert_int_equal(store_write(p.t.s, 77, &m, raw, BLOCK, &ref, &e), -ERR_LIMIT);
        assert_int_equal(store_file_size(&p.t, 77), -1);
        full_after_header = false;
        fault_hit = NULL;
        assert_int_equal(store_stats(&p.t).n_refused, 2);
        assert_int_equal(store_stats(&p.t).disk_size, 40960);
        put(&p, 1);
        assert_int_equal(p.ref[1].offset, 40960);
        check(&p);
        store_remove(&p.t);
}

struct writer {
        pthread_t thread;
        struct spill *s;
        struct spill_ref ref;
        uint64_t key;
        uint32_t what;
        int r;
};

static void *write_one(void *arg) {
        static _Thread_local uint8_t own[BLOCK];
        struct writer *w = arg;
        struct spill_meta m = meta_of(w->what);

        fill(own, BLOCK, RANDOM, w->what);
        w->r = store_write(w->s, w->key, &m, own, BLOCK, &w->ref, NULL);
        return NULL;
}

static void start_writer(struct writer *w) {
        assert_int_equal(pthread_create(&w->thread, NULL, write_one, w), 0);
}

static void await_gate(void) {
        pthread_mutex_lock(&gate.lock);
        while (!gate.held && !gate.gave_up)
                pthread_cond_wait(&gate.changed, &gate.lock);
        pthread_mutex_unlock(&gate.lock);
}

static void expect_block(struct program *p, const struct writer *w) {
        static uint8_t want[BLOCK], got[BLOCK];
        struct spill_meta m = meta_of(w->what);

        fill(want, BLOCK, RANDOM, w->what);
        assert_int_equal(w->r, 0);
        assert_int_equal(spill_read(p->t.s, &w->ref, &m, got, BLOCK, NULL), 0);
        assert_memory_equal(want, got, BLOCK);
}

/* A failed write gives its range back, which takes long: meanwhile others read, also of that file,
 * and write and release elsewhere; who writes to that file gets a place that nobody cuts off. */
static void slow_to_give_back(bool cut) {
        struct program p = {0};
        struct writer failing, same, other;
        uint64_t end;

        store_make(&p.t);
        store_start(&p.t);
        put(&p, 0);
        end = (uint64_t)store_file_size(&p.t, 0);
        failing = (struct writer){.s = p.t.s, .key = 0, .what = 9};
        same = (struct writer){.s = p.t.s, .key = 0, .what = 10};
        other = (struct writer){.s = p.t.s, .key = 77, .what = 11};
        no_truncate = !cut;
        full_after_header = true;
        gate.gave_up = false;
        set_gate(true);
        start_writer(&failing);
        await_gate();
        full_after_header = false;
        start_writer(&same);
        write_one(&other);
        expect_block(&p, &other);
        assert_int_equal(get(&p, 0), 0);
        assert_false(gate.gave_up);
        set_gate(false);
        pthread_join(failing.thread, NULL);
        pthread_join(same.thread, NULL);
        no_truncate = false;
        assert_int_equal(failing.r, -ERR_LIMIT);
        expect_block(&p, &same);
        if (cut)
                assert_int_equal(same.ref.offset, end);
        assert_int_equal(get(&p, 0), 0);
        assert_int_equal(
                store_stats(&p.t).disk_size, end + same.ref.stored_size + other.ref.stored_size);
        assert_int_equal(spill_release(p.t.s, &same.ref, NULL), 0);
        assert_int_equal(spill_release(p.t.s, &other.ref, NULL), 0);
        drop(&p, 0);
        assert_int_equal(store_stats(&p.t).disk_size, 0);
        store_remove(&p.t);
}

static void test_slow_truncation(void **state) {
        slow_to_give_back(true);
}

static void test_slow_punching(void **state) {
        slow_to_give_back(false);
}

/* Where holes cannot be punched, the bytes stay counted until the file goes. */
static void test_no_holes(void **state) {
        struct program p = {0};

        store_make(&p.t);
        store_start(&p.t);
        put(&p, 0);
        put(&p, 1);
        fault_errno = EOPNOTSUPP;
        fault_at = 0;
        drop(&p, 0);
        assert_non_null(fault_hit);
        assert_int_equal(store_stats(&p.t).disk_size, 40960 + p.ref[1].stored_size);
        assert_int_equal(store_stats(&p.t).n_records, 1);
        assert_int_equal(get(&p, 1), 0);
        drop(&p, 1);
        assert_int_equal(store_stats(&p.t).disk_size, 0);
        assert_int_equal(store_file_size(&p.t, 0), -1);
        fault_hit = NULL;
        store_remove(&p.t);
}

static uint8_t dst[4 * MANY][BLOCK];
static struct spill_item items[4 * MANY];

/* Four records of a file, and items for them, each record @n_times; with @settle they are out of
 * the page cache, if that can be. */
static void put_four(struct program *p, bool settle, size_t n_times) {
        if (!p->t.dir[0])
                store_make(&p->t);
        store_start(&p->t);
        for (uint32_t i = 0; i < 4; i++) {
                struct spill_meta m = meta_of(i);

                fill(raw, BLOCK, RANDOM, i);
                assert_int_equal(store_write(p->t.s, 5, &m, raw, BLOCK, &p->ref[i], NULL), 0);
                for (size_t k = i; k < 4 * n_times; k += 4)
                        items[k] = (struct spill_item){.ref = p->ref[i], .meta = m, .dst = dst[k]};
        }
        if (settle)
                spill_settle(p->t.s, 5);
        n_direct = n_submitted = 0;
}

/* Reads came past the page cache, where that can be, and in flight if there were many. */
static bool came_direct(struct program *p, size_t n_times) {
        return (n_direct > 0 && (n_submitted > 0) == (n_times > 1)) ||
               !has_direct(store_path(&p->t, 5)) || !resident_can_drop(p->t.dir);
}

/* A bad place on the disk: the record there fails, those that were read with it do not. */
static void bad_place(bool settle, size_t n_times) {
        struct program p = {0};

        put_four(&p, settle, n_times);
        bad_at = (off_t)p.ref[2].offset + 30000;
        assert_int_equal(spill_read_batch(p.t.s, items, 4 * n_times, NULL), -ERR_SYS);
        bad_at = 0;
        for (uint32_t i = 0; i < 4 * n_times; i++) {
                assert_int_equal(items[i].r, i % 4 == 2 ? -ERR_SYS : 0);
                fill(raw, BLOCK, RANDOM, i % 4);
                if (i % 4 != 2)
                        assert_memory_equal(raw, dst[i], BLOCK);
        }
        assert_true(settle ? came_direct(&p, n_times) : n_direct == 0);
        assert_int_equal(store_stats(&p.t).n_corrupt, 0);
        assert_int_equal(spill_read_batch(p.t.s, items, 4 * n_times, NULL), 0);
        store_remove(&p.t);
}

static void test_bad_place(void **state) {
        bad_place(false, MANY);
        bad_place(true, 1);
        bad_place(true, MANY);
}

static void expect_four(struct program *p, size_t n_times) {
        memset(dst, 0x55, sizeof(dst));
        assert_int_equal(spill_read_batch(p->t.s, items, 4 * n_times, NULL), 0);
        for (uint32_t i = 0; i < 4 * n_times; i++) {
                fill(raw, BLOCK, RANDOM, i % 4);
                assert_memory_equal(raw, dst[i], BLOCK);
        }
}

/* A file system that opens files with O_DIRECT and does not read them so: it is not tried again. */
static void test_direct_refused(void **state) {
        for (size_t n_times = 1; n_times <= MANY; n_times += MANY - 1) {
                struct program p = {0};

                put_four(&p, true, n_times);
                refuse_direct = true;
                expect_four(&p, n_times);
                refuse_direct = false;
                assert_true(came_direct(&p, n_times));
                n_direct = 0;
                expect_four(&p, n_times);
                assert_int_equal(n_direct, 0);
                store_remove(&p.t);
        }
}

/* Whether the disk was late in a load of many windows whose reads take so long to begin and to end. */
static bool is_late(useconds_t begin, useconds_t wait, bool was) {
        struct program p = {0};
        bool late;

        store_make(&p.t);
        p.t.options.ring_size = 8 * BLOCK;
        put_four(&p, true, MANY);
        expect_four(&p, 1); /* one that takes memory */
        assert_non_null(p.t.s->scratch);
        p.t.s->scratch->disk_is_late = was;
        begin_usec = begin, wait_usec = wait;
        n_evicted = 0;
        expect_four(&p, MANY);
        begin_usec = wait_usec = 0;
        if (wait > 0 && n_submitted > 0)
                assert_true(n_evicted > 0);
        late = p.t.s->scratch->disk_is_late;
        assert_true(came_direct(&p, MANY));
        if (n_submitted == 0)
                late = wait > 0;
        store_remove(&p.t);
        return late;
}

/* It is late if reads are waited for; not if they are over before their turn comes. (This program may itself be
 * kept waiting, so that has some tries.) */
static void test_late(void **state) {
        bool late = true;

        assert_true(is_late(0, 5000, false));
        for (size_t i = 0; i < 10 && late; i++)
                late = is_late(10000, 0, true);
        assert_false(late);
}

/* Some of the ring is there for what is begun before the first of what has come is decoded. */
static void test_spare(void **state) {
        struct program p = {0};

        store_make(&p.t);
        p.t.options.ring_size = 8 * BLOCK;
        put_four(&p, true, MANY);
        in_flight = most_in_flight = 0;
        expect_four(&p, MANY);
        assert_true(came_direct(&p, MANY));
        assert_int_equal(in_flight, 0);
        assert_true(most_in_flight <= p.t.s->ring_size - p.t.s->ring_size / 4);
        if (n_submitted > 0)
                assert_true(most_in_flight > p.t.s->ring_size / 4);
        store_remove(&p.t);
}

/* Fresh memory is taken from the system once for each block, whether the kernel can do so at once or not. */
static void test_fresh_memory(void **state) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), size = align_up(BLOCK, page);

        for (int settle = 0; settle < 2; settle++)
                for (int old = 0; old < 2; old++) {
                        struct program p = {0};
                        uint8_t *fresh = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                        assert_true(fresh != MAP_FAILED);
                        put_four(&p, settle, 1);
                        n_taken_at_once = 0;
                        expect_four(&p, 1);
                        assert_int_equal(n_taken_at_once, 0);
                        for (size_t i = 0; i < 4; i++) {
                                items[i].dst = fresh + i * size;
                                items[i].is_fresh = true;
                        }
                        takes_none = old;
                        assert_int_equal(spill_read_batch(p.t.s, items, 4, NULL), 0);
                        takes_none = false;
                        assert_int_equal(n_taken_at_once, 4);
                        for (uint32_t i = 0; i < 4; i++) {
                                fill(raw, BLOCK, RANDOM, i);
                                assert_memory_equal(raw, fresh + i * size, BLOCK);
                        }
                        munmap(fresh, 4 * size);
                        store_remove(&p.t);
                }
}

/* The floor is kept to the page, and what was written is not subtracted twice. */
static void test_floor(void **state) {
        struct program p = {0};
        struct spill_meta m = meta_of(2);
        struct spill_ref ref;

        store_make(&p.t);
        p.t.options.min_free_size = 100 * 4096;
        store_start(&p.t);
        fake_n_free = 110;
        for (uint32_t i = 0; i < 4; i++)
                put(&p, i);
        fill(raw, BLOCK, ZERO, 2);
        fake_n_free = 109;
        assert_int_equal(store_write(p.t.s, 7, &m, raw, BLOCK, &ref, NULL), -ERR_LIMIT);
        fake_n_free = 110;
        assert_int_equal(store_write(p.t.s, 7, &m, raw, BLOCK, &ref, NULL), 0);
        assert_int_equal(store_stats(&p.t).n_refused_by[SPILL_REFUSED_FLOOR], 1);
        fake_n_free = 0;
        store_remove(&p.t);
}

static void test_short_transfers(void **state) {
        struct program p = {0};

        store_make(&p.t);
        store_start(&p.t);
        dribble = true;
        put(&p, 0);
        put(&p, 1);
        check(&p);
        dribble = false;
        check(&p);
        store_remove(&p.t);

        for (size_t n_times = 1; n_times <= MANY; n_times += MANY - 1) {
                put_four(&p, true, n_times);
                dribble = true;
                expect_four(&p, n_times);
                dribble = false;
                assert_true(came_direct(&p, n_times));
                store_remove(&p.t);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_call_may_fail),
                cmocka_unit_test(test_stop_anywhere),
                cmocka_unit_test(test_full_in_the_middle),
                cmocka_unit_test(test_no_holes),
                cmocka_unit_test(test_slow_truncation),
                cmocka_unit_test(test_slow_punching),
                cmocka_unit_test(test_bad_place),
                cmocka_unit_test(test_direct_refused),
                cmocka_unit_test(test_late),
                cmocka_unit_test(test_spare),
                cmocka_unit_test(test_fresh_memory),
                cmocka_unit_test(test_floor),
                cmocka_unit_test(test_short_transfers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
