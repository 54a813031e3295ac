/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void bench_die(const char *fmt, ...) {
        va_list ap;

        fputs("bench: ", stderr);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fputc('\n', stderr);
        exit(1);
}

void bench_check(int r, const struct err *e, const char *what) {
        if (r < 0)
                bench_die("%s: %s", what, e->msg);
}

void bench_note(const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fputc('\n', stderr);
}

static double seconds(clockid_t clock) {
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double bench_now(void) {
        return seconds(CLOCK_MONOTONIC);
}

double bench_thread_time(void) {
        return seconds(CLOCK_THREAD_CPUTIME_ID);
}

void bench_put(const char *name, const double *values, size_t n) {
        printf("{\"name\":\"%s\",\"values\":[", name);
        for (size_t i = 0; i < n; i++)
                printf("%s%.9g", i ? "," : "", values[i]);
        printf("]}\n");
        fflush(stdout);
}

void bench_put1(const char *name, double value) {
        bench_put(name, &value, 1);
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double bench_median(double *values, size_t n) {
        if (n == 0)
                return 0;
        qsort(values, n, sizeof(*values), compare);
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void *bench_alloc(size_t n) {
        void *p = NULL;

        if (posix_memalign(&p, 4096, n ? n : 1) != 0)
                bench_die("no memory for %zu bytes", n);
        memset(p, 1, n);
        return p;
}

uint32_t bench_isa(void) {
        const char *s = getenv("CONFAB_BENCH_ISA");

        return s ? (uint32_t)bench_number(s) : UINT32_MAX;
}

uint64_t bench_number(const char *s) {
        unsigned long long v;
        char *end;

        errno = 0;
        v = strtoull(s, &end, 10);
        if (errno || end == s || *end)
                bench_die("'%s' is no number", s);
        return v;
}

size_t bench_numbers(const char *s, uint32_t *ret, size_t max) {
        size_t n = 0;

        while (*s) {
                char *end;
                unsigned long v = strtoul(s, &end, 10);

                if (end == s || (*end && *end != ',') || n == max || v > UINT32_MAX)
                        bench_die("'%s' is no list of at most %zu numbers", s, max);
                ret[n++] = (uint32_t)v;
                s = *end ? end + 1 : end;
        }
        return n;
}

uint64_t bench_random(uint64_t *state) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

/* fn for each file of the folder. */
static void each_file(
        const char *dir, void (*fn)(int fd, const struct stat *st, void *arg), void *arg) {
        DIR *d = opendir(dir);
        struct dirent *entry;

        if (!d)
                bench_die("%s: %s", dir, strerror(errno));
        while ((entry = readdir(d))) {
                int fd = openat(dirfd(d), entry->d_name, O_RDONLY | O_CLOEXEC);
                struct stat st;

                if (fd < 0)
                        continue;
                if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
                        fn(fd, &st, arg);
                close(fd);
        }
        closedir(d);
}

static void fill_file(int fd, const struct stat *st, void *arg) {
        static char buf[1 << 20];
        off_t at = 0;
        ssize_t n;

        while ((n = pread(fd, buf, sizeof(buf), at)) > 0)
                at += n;
}

void bench_cache_fill(const char *dir) {
        each_file(dir, fill_file, NULL);
}

static void drop_file(int fd, const struct stat *st, void *arg) {
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

void bench_cache_drop(const char *dir) {
        each_file(dir, drop_file, NULL);
}

struct pages {
        size_t n, n_in;
};

static void count_file(int fd, const struct stat *st, void *arg) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n = ((size_t)st->st_size + page - 1) / page;
        struct pages *pages = arg;
        unsigned char *in;
        void *p;

        if (n == 0)
                return;
        p = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return;
        in = bench_alloc(n);
        if (mincore(p, (size_t)st->st_size, in) == 0) {
                pages->n += n;
                for (size_t i = 0; i < n; i++)
                        pages->n_in += in[i] & 1;
        }
        free(in);
        munmap(p, (size_t)st->st_size);
}

double bench_cache_share(const char *dir) {
        struct pages pages = {0};

        each_file(dir, count_file, &pages);
        return pages.n ? (double)pages.n_in / (double)pages.n : 0;
}

static void add_size(int fd, const struct stat *st, void *arg) {
        *(double *)arg += (double)st->st_blocks * 512;
}

double bench_disk_size(const char *dir) {
        double size = 0;

        each_file(dir, add_size, &size);
        return size;
}
