/* SPDX-License-Identifier: MIT */
/*
 * The gated delta rule with one decay per head (Qwen3-Next, Qwen3.5). Per token: queries, keys and values
 * through one causal convolution and SILU; queries and keys of length 1; per head of values
 *
 *   decay = exp(ssm_a * softplus(alpha + ssm_dt)),  beta = sigmoid(beta)
 *   S = decay S;  S += k ((v - S^T k) beta)^T;  o = S^T q / sqrt(size of a key)
 *
 * then the RMS norm of o with ssm_norm, times silu(z), and ssm_out. There are as many heads of values as
 * of queries and keys or a multiple. Which of these a head of values uses depends on the row
 * (arch.interleaved_heads), because converters put the heads of values in another order.
 *
 * Files differ in where the projections are. Queries, keys, values and z: attn_qkv and attn_gate, or, in
 * older files of Qwen3-Next, ssm_in with the rows of each key head together. alpha and beta: ssm_alpha and
 * ssm_beta, or, in Qwen3-Next, ssm_ba with those of each key head together.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-norm.h"
#include "model/internal.h"
#include "model/mixer.h"
#include "model/ssm.h"

struct delta {
        uint32_t layer;
        struct kern_mat qkv, z; /* n_in of 0: both are in `in` */
        struct kern_mat in;
        struct kern_mat alpha, beta; /* n_in of 0: both are in `ba` */
        struct kern_mat ba, out;
        const float *a, *dt; /* [n_head] */
        struct norm norm;    /* of a head of values */
        struct kern_conv conv;
        struct kern_delta kern;
        size_t n_keys, n_values; /* of all heads */
};

/* Room in w->mix, floats per token. */
static size_t n_qkv(const struct delta *y) {
        return 2 * y->n_keys + y->n_values;
}

static size_t n_mix(const struct delta *y) {
        /* qkv, z, what comes out; alpha and beta; both again as the file has them */
        size_t apart = n_qkv(y) + 2 * y->n_values + 2 * y->kern.n_head;

        return apart + MAX(n_qkv(y) + y->n_values, 2 * y->kern.n_head);
}

static int load_sizes(struct model *m, struct delta *y, struct ssm *s, struct err *e) {
        int r = ssm_read(&m->hparams, s, true, e);

        if (r < 0)
                return r;
        if (s->n_state > KERN_STATE_KEYS)
                return err_set(e, ERR_UNSUPPORTED, "%s.ssm.state_size %u is above %u",
                        m->arch->name, s->n_state, KERN_STATE_KEYS);
        if (s->n_inner / s->rank != s->n_state)
                return err_set(e, ERR_FORMAT,
                        "%s.ssm.inner_size %u in %u heads gives values of another size than the "
                        "keys' %u",
                        m->arch->name, s->n_inner, s->rank, s->n_state);
        y->kern = (struct kern_delta){.n_head = s->rank,
                .n_key_head = s->n_group,
                .interleaved = m->arch->interleaved_heads,
                .n_key = s->n_state,
                .n_value = s->n_state,
                .scale = 1.0f / sqrtf((float)s->n_state)};
        y->n_keys = (size_t)s->n_group * s->n_state;
        y->n_values = s->n_inner;
        return 0;
}

/* A model, not a layer, has its projections in one way: one that is missing must not pass. */
static bool is_grouped(const struct model *m) {
        for (uint32_t i = 0; i < m->hparams.n_layer; i++)
                if (m->hparams.recurrent[i] &&
                        (weights_has(&m->weights, (int)i, "attn_qkv.weight") ||
                                weights_has(&m->weights, (int)i, "attn_gate.weight")))
                        return false;
        return !m->arch->interleaved_heads;
}

static int load_projections(struct model *m, struct delta *y, struct err *e) {
        size_t n = m->hparams.n_embd, n_head = y->kern.n_head;
        bool grouped = is_grouped(m), apart = m->arch->interleaved_heads;
        const struct {
                const char *name;
                struct kern_mat *mat;
                size_t n_out;
                bool wanted;
        } part[] = {
                {"ssm_in.weight", &y->in, n_qkv(y) + y->n_values, grouped},
                {"attn_qkv.weight", &y->qkv, n_qkv(y), !grouped},
                {"attn_gate.weight", &y->z, y->n_values, !grouped},
                {"ssm_ba.weight", &y->ba, 2 * n_head, !apart},
                {"ssm_beta.weight", &y->beta, n_head, apart},
                {"ssm_alpha.weight", &y->alpha, n_head, apart},
        };

        for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
                int r;

                if (!part[i].wanted)
                        continue;
                r = weights_mat(
                        &m->weights, part[i].mat, (int)y->layer, part[i].name, n, part[i].n_out, e);
                if (r < 0)
                        return r;
                work_dims_mat(&m->dims, part[i].mat);
        }
        return 0;
}

static int load(struct model *m, struct delta *y, struct err *e) {
        struct weights *w = &m->weights;
        int layer = (int)y->layer, r;
        size_t n_head, panel;
        struct ssm s;

        r = load_sizes(m, y, &s, e);
        if (r == 0)
                r = load_projections(m, y, e);
        if (r < 0)
                return r;
        n_head = y->kern.n_head;
        r = weights_vec(w, &y->a, layer, "ssm_a", n_head, e);
        if (r == 0)
                r = weights_vec(w, &y->dt, layer, "ssm_dt.bias", n_head, e);
        if (r == 0)
                r = weights_mat(
                        w, &y->out, layer, "ssm_out.weight", y->n_values, m->hparams.n_embd, e);
        if (r == 0)
                r = norm_load(m, &y->norm, layer, "ssm_norm", y->kern.n_value, e);
        if (r == 0)
                r = conv_load(m, &y->conv, y->layer, "ssm_conv1d.weight", NULL, false,
                        (uint32_t)n_qkv(y), s.n_taps, e);
        if (r < 0)
                return r;
        y->conv.silu = true;
        panel = kern_state_panel(y->kern.n_value);
        return state_book(m, y->layer, (uint32_t)(n_head * (y->kern.n_value / panel)),
                (uint32_t)panel, (uint32_t)y->kern.n_key, &y->kern.state_offset, e);
}

static int delta_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct delta *y = calloc(1, sizeof(*y));
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        y->layer = layer;
        r = load(m, y, e);
        if (r < 0)
                return r;
        m->dims.n_mix = MAX(m->dims.n_mix, n_mix(y));
        work_dims_mat(&m->dims, &y->out);
        return 0;
}

/* Rows of which each is a group for each key head, in parts of @n floats; part p is gathered in rows of
 * @width at to[p]. */
static void ungroup(const struct delta *y, const float *from, size_t n_rows, const size_t *n,
        float *const *to, const size_t *width, size_t n_parts) {
        for (size_t t = 0; t < n_rows; t++)
                for (size_t g = 0; g < y->kern.n_key_head; g++)
                        for (size_t p = 0; p < n_parts; p++) {
                                memcpy(to[p] + t * width[p] + g * n[p], from, n[p] * sizeof(*from));
                                from += n[p];
                        }
}

/* qkv [n][n_qkv] and z [n][n_values]. */
static void project(const struct delta *y, struct model_work *w, struct work_input *in, float *qkv,
        float *z, float *spare) {
        size_t n_key = y->kern.n_key, per_key_head = y->n_values / y->kern.n_key_head;
        const size_t n[] = {n_key, n_key, per_key_head, per_key_head};
        const size_t width[] = {n_qkv(y), n_qkv(y), n_qkv(y), y->n_values};
        float *const to[] = {qkv, qkv + y->n_keys, qkv + 2 * y->n_keys, z};

        if (y->in.n_in) {
                work_matmul(w, in, &y->in, NULL, spare);
                ungroup(y, spare, w->n, n, to, width, ARRAY_SIZE(n));
                return;
        }
        work_matmul(w, in, &y->qkv, NULL, qkv);
        work_matmul(w, in, &y->z, NULL, z);
}

/* The decays and betas of all heads, [n][n_head]. */
static void gates(const struct delta *y, struct model_work *w, struct work_input *in, float *decay,
        float *beta, float *spare) {
        size_t n_head = y->kern.n_head, per_key_head = n_head / y->kern.n_key_head;
        const size_t n[] = {per_key_head, per_key_head}, width[] = {n_head, n_head};
        float *const to[] = {beta, decay};

        if (y->ba.n_in) {
                work_matmul(w, in, &y->ba, NULL, spare);
                ungroup(y, spare, w->n, n, to, width, ARRAY_SIZE(n));
        } else {
                work_matmul(w, in, &y->beta, NULL, beta);
                work_matmul(w, in, &y->alpha, NULL, decay);
        }
        kern_sigmoid(w->kern, beta, w->n * n_head);
        kern_softplus(w->kern, decay, n_head, y->dt, n_head, w->n, decay, n_head);
        kern_exp_scaled(w->kern, decay, y->a, 1, n_head, w->n);
}

static int delta_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct delta *y = own;
        size_t n = w->n, ld = n_qkv(y), n_head = y->kern.n_head, n_value = y->kern.n_value;
        float *qkv = w->mix, *z = qkv + n * ld, *o = z + n * y->n_values;
        float *decay = o + n * y->n_values, *beta = decay + n * n_head, *spare = beta + n * n_head;
        struct work_input mixed = work_input(o, y->n_values, n, w->act[1]);
        const struct kern_delta_rows rows = {.q = qkv,
                .k = qkv + y->n_keys,
                .v = qkv + 2 * y->n_keys,
                .ldq = ld,
                .ldk = ld,
                .ldv = ld,
                .decay = decay,
                .beta = beta,
                .out = o,
                .ldo = y->n_values};
        int r;

        project(y, w, in, qkv, z, spare);
        gates(y, w, in, decay, beta, spare);
        r = work_wait(w, y->layer);
        if (r)
                return r;
        kern_conv(w->kern, &y->conv, w->runs, w->n_runs, qkv, ld, qkv, ld);
        kern_l2norm(w->kern, qkv, ld, 2 * y->kern.n_key_head, y->kern.n_key,
                w->model->hparams.norm_eps, n);
        kern_delta(w->kern, &y->kern, w->runs, w->n_runs, &rows);
        norm_forward(&y->norm, w, o, o, n_value, n * n_head);
        kern_activate(w->kern, KERN_SILU, z, o, o, n * y->n_values);
        work_matmul(w, &mixed, &y->out, NULL, out);
        return 0;
}

const struct mixer mixer_delta = {"gated delta rule", delta_load, NULL, delta_forward};
