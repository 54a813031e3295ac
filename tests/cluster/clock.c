/* SPDX-License-Identifier: MIT */
/*
 * A realtime clock that is wrong. Loaded into a daemon by LD_PRELOAD, it adds to that clock the nanoseconds that the file
 * $CONFAB_TEST_CLOCK has at that moment (an int64_t). Other clocks are as they are.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *wrong_by;

__attribute__((constructor)) static void open_clock(void) {
        const char *path = getenv("CONFAB_TEST_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *map;

        if (fd < 0)
                return;
        map = mmap(NULL, sizeof(*wrong_by), PROT_READ, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED)
                wrong_by = map;
        close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
        int r = (int)syscall(SYS_clock_gettime, clock, t);

        if (r == 0 && wrong_by && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
                int64_t now = t->tv_sec * INT64_C(1000000000) + t->tv_nsec + *wrong_by;

                t->tv_sec = now / INT64_C(1000000000);
                t->tv_nsec = now % INT64_C(1000000000);
        }
        return r;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
        struct timespec t;

        (void)zone;
        if (clock_gettime(CLOCK_REALTIME, &t) < 0)
                return -1;
        now->tv_sec = t.tv_sec;
        now->tv_usec = t.tv_nsec / 1000;
        return 0;
}

time_t time(time_t *ret) {
        struct timespec t;

        if (clock_gettime(CLOCK_REALTIME, &t) < 0)
                return -1;
        if (ret)
                *ret = t.tv_sec;
        return t.tv_sec;
}
