/* SPDX-License-Identifier: MIT */
/* Activations: how they are dealt to threads. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "base/util.h"
#include <assert.h>

struct activation_job {
        const struct kern_ops *ops;
        enum kern_activation a;
        const float *x, *up;
        float *y;
        size_t n;
        float cap;
        struct kern_xielu xielu;
};

static void run(struct kern *k, struct activation_job *job,
        void (*fn)(void *arg, size_t task, unsigned thread)) {
        job->ops = &k->ops;
        kern_run(k, (job->n + KERN_GRAIN - 1) / KERN_GRAIN, fn, job);
}

static size_t task_size(const struct activation_job *job, size_t task) {
        return MIN(job->n - task * KERN_GRAIN, (size_t)KERN_GRAIN);
}

static void activate_task(void *arg, size_t task, unsigned thread) {
        const struct activation_job *job = arg;
        size_t i = task * KERN_GRAIN;

        job->ops->activate[job->a](
                job->x + i, job->up ? job->up + i : NULL, job->y + i, task_size(job, task));
}

void kern_activate(struct kern *k, enum kern_activation a, const float *gate, const float *up,
        float *y, size_t n) {
        struct activation_job job = {.a = a, .x = gate, .up = up, .y = y, .n = n};

        assert(up || a != KERN_SWIGLU_OAI);
        run(k, &job, activate_task);
}

static void xielu_task(void *arg, size_t task, unsigned thread) {
        const struct activation_job *job = arg;
        size_t i = task * KERN_GRAIN;

        job->ops->xielu(&job->xielu, job->x + i, job->y + i, task_size(job, task));
}

void kern_xielu(struct kern *k, const float *x, float *y, size_t n, float alpha_p, float alpha_n,
        float beta, float eps) {
        struct activation_job job = {
                .x = x, .y = y, .n = n, .xielu = {alpha_p, beta + alpha_n, beta, eps}};

        run(k, &job, xielu_task);
}

static void sigmoid_task(void *arg, size_t task, unsigned thread) {
        const struct activation_job *job = arg;

        job->ops->sigmoid(job->y + task * KERN_GRAIN, task_size(job, task));
}

void kern_sigmoid(struct kern *k, float *x, size_t n) {
        struct activation_job job = {.y = x, .n = n};

        run(k, &job, sigmoid_task);
}

static void softcap_task(void *arg, size_t task, unsigned thread) {
        const struct activation_job *job = arg;

        job->ops->softcap(job->y + task * KERN_GRAIN, job->cap, task_size(job, task));
}

void kern_softcap(struct kern *k, float *x, float cap, size_t n) {
        struct activation_job job = {.y = x, .cap = cap, .n = n};

        run(k, &job, softcap_task);
}
