/* SPDX-License-Identifier: MIT */
/* Any file through the loader; what loads must encode and print without harm. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"
#include "tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char text[] = "ab <s>abab\xff </s> \xc3\xa9 123  \n";
        const struct tok_fragment f[] = {
                {text, sizeof(text) - 1, true}, {text, sizeof(text) - 1, false}};
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        _cleanup_(tok_freep) struct tok *t = NULL;
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct tok_stream s;

        if (gguf_parse(&g, data, size, NULL) < 0 || tok_new(&t, g, NULL) < 0)
                return 0;
        if (tok_encode(t, f, 2, true, true, 0, &ids, NULL) < 0)
                return 0;
        tok_stream_init(&s, t, true, true);
        for (size_t i = 0; i < ids.n; i++) {
                if (ids.ids[i] < 0 || (uint32_t)ids.ids[i] >= tok_n_vocab(t))
                        abort();
                tok_stream_push(&s, t, ids.ids[i], &out);
        }
        for (uint32_t i = 0; i < tok_n_vocab(t); i++)
                tok_stream_push(&s, t, (int32_t)i, &out);
        tok_stream_finish(&s, &out);
        return 0;
}
