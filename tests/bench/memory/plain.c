/* SPDX-License-Identifier: MIT */
#include "plain.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "bench.h"

enum { PIECE = 1 << 20, MAX_READERS = 64 };

struct reading {
        int fd;
        uint8_t *buf;
        atomic_size_t next; /* piece that nobody reads */
        atomic_size_t bytes;
};

void plain_make(const char *dir, double size) {
        _cleanup_(freep) uint64_t *chunk = bench_alloc(PIECE);
        char path[4200];
        uint64_t seed = 3;
        int fd;

        snprintf(path, sizeof(path), "%s/plain", dir);
        if (mkdir(dir, 0700) < 0 && access(dir, W_OK) < 0)
                bench_die("cannot make %s", dir);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        for (size_t i = 0; i < PIECE / sizeof(*chunk); i++)
                chunk[i] = bench_random(&seed);
        for (double at = 0; at < size; at += PIECE) {
                chunk[0] = (uint64_t)at;
                if (write(fd, chunk, PIECE) != PIECE)
                        bench_die("cannot write %s", path);
        }
        close(fd);
}

static int open_plain(const char *dir, int flags) {
        char path[4200];
        int fd;

        snprintf(path, sizeof(path), "%s/plain", dir);
        fd = open(path, O_RDONLY | O_CLOEXEC | flags);
        if (fd < 0 && flags)
                fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                bench_die("cannot open %s", path);
        return fd;
}

static void *read_pieces(void *arg) {
        struct reading *r = arg;
        ssize_t n;

        for (;;) {
                size_t at = atomic_fetch_add(&r->next, 1) * PIECE;

                n = pread(r->fd, r->buf + at, PIECE, (off_t)at);
                if (n < 0)
                        bench_die("cannot read a plain file");
                if (n == 0)
                        return NULL;
                atomic_fetch_add(&r->bytes, (size_t)n);
        }
}

static double read_by(const char *dir, void *buf, unsigned n_threads, int flags) {
        struct reading r = {.fd = open_plain(dir, flags), .buf = buf};
        pthread_t threads[MAX_READERS];
        struct stat st;
        double t0 = bench_now();

        for (unsigned i = 1; i < n_threads; i++)
                if (pthread_create(&threads[i], NULL, read_pieces, &r) != 0)
                        bench_die("cannot start a thread");
        read_pieces(&r);
        for (unsigned i = 1; i < n_threads; i++)
                pthread_join(threads[i], NULL);
        t0 = bench_now() - t0;
        if (fstat(r.fd, &st) < 0 || atomic_load(&r.bytes) != (size_t)st.st_size)
                bench_die("a plain file was not read whole");
        close(r.fd);
        return t0;
}

double plain_read_one(const char *dir, void *buf) {
        return read_by(dir, buf, 1, 0);
}

double plain_read_many(const char *dir, void *buf, bool direct) {
        return read_by(dir, buf, plain_n_readers(), direct ? O_DIRECT : 0);
}

unsigned plain_n_readers(void) {
        cpu_set_t cpus;
        int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;

        return (unsigned)MIN(MAX(n, 2), MAX_READERS);
}
