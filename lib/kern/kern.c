/* SPDX-License-Identifier: MIT */
/* The object: a table of kernels and the threads. */
#include "kern/kern.h"
#include "kern/cpu.h"
#include "kern/kern-isa.h"
#include "base/err.h"

#define N_THREADS_MAX 1024

int kern_new(struct kern **ret, unsigned n_threads, enum kern_isa max_isa, struct err *e) {
        _cleanup_(kern_freep) struct kern *k = NULL;
        int r;

        if (n_threads < 1 || n_threads > N_THREADS_MAX)
                return err_set(e, ERR_INVALID, "%u threads, not 1 to %d", n_threads, N_THREADS_MAX);
        k = calloc(1, sizeof(*k));
        if (!k)
                return err_set(e, ERR_NOMEM, "no memory for kernels");
        k->isa = kern_ops_init(&k->ops, max_isa);
        r = kern_pool_new(&k->pool, n_threads, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(k);
        return 0;
}

struct kern *kern_free(struct kern *k) {
        if (!k)
                return NULL;
        kern_pool_free(k->pool);
        free(k);
        return NULL;
}

enum kern_isa kern_isa(const struct kern *k) {
        return k->isa;
}

unsigned kern_n_threads(const struct kern *k) {
        return kern_pool_n_threads(k->pool);
}

void kern_run(struct kern *k, size_t n_tasks, void (*fn)(void *arg, size_t task, unsigned thread),
        void *arg) {
        /* The pool counts in 32 bits; nobody has that many tasks, but the promise holds. */
        if (n_tasks >= UINT32_MAX)
                for (size_t i = 0; i < n_tasks; i++)
                        fn(arg, i, 0);
        else
                kern_pool_run(k->pool, (uint32_t)n_tasks, fn, arg);
}
