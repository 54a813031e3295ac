/* SPDX-License-Identifier: MIT */
/* Which layers are recurrent. */
#include <string.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "model/hparams.h"

static int read_interval(struct hparams *h, struct err *e) {
        static const char key[] = "attention.recurrent_layers";
        uint32_t interval;
        struct gguf_array a;
        int r = hparams_array(h, key, &a, e);

        if (r < 0)
                return r;
        if (r == 0 && (a.type != GGUF_BOOL || a.count != h->n_block))
                return err_set(e, ERR_FORMAT, "%s.%s must be %u bools, one per layer",
                        h->arch->name, key, h->n_block);
        if (r == 0) {
                for (uint32_t i = 0; i < h->n_layer; i++)
                        h->recurrent[i] = gguf_array_int(&a, i) != 0;
                return 0;
        }
        r = hparams_u32_or(h, "full_attention_interval", 1, HPARAMS_MAX_LAYERS, 4, &interval, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < h->n_layer; i++)
                h->recurrent[i] = (i + 1) % interval != 0;
        return 0;
}

int hparams_read_recurrence(struct hparams *h, struct err *e) {
        memset(h->recurrent, 0, sizeof(h->recurrent));
        switch (h->arch->recurrent_layers) {
        case ARCH_RECURRENT_NONE:
                return 0;
        case ARCH_RECURRENT_INTERVAL:
                return read_interval(h, e);
        case ARCH_RECURRENT_ALL:
        case ARCH_RECURRENT_NO_KV:
                break;
        }
        for (uint32_t i = 0; i < h->n_layer; i++)
                h->recurrent[i] = h->n_kv_head[i] == 0;
        return 0;
}
