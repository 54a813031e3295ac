/* SPDX-License-Identifier: MIT */
/* Any bytes as the two files of a model: opened or refused, and all that was opened can be read. The
 * first two bytes of the input are the size of the first file. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;
static char folder[] = "/tmp/confab-fuzz-split-XXXXXX";
static char names[2][64];

static void clean(void) {
        unlink(names[0]);
        unlink(names[1]);
        rmdir(folder);
}

static void begin(void) {
        assert(mkdtemp(folder));
        for (int i = 0; i < 2; i++)
                snprintf(names[i], sizeof(names[i]), "%s/m-%05d-of-00002.gguf", folder, i + 1);
        atexit(clean);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert(fd >= 0);
        assert(write(fd, data, size) == (ssize_t)size);
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct gguf *g = NULL;
        uint64_t hash;
        size_t first;

        if (size < 2)
                return 0;
        if (!names[0][0])
                begin();
        first = MIN((size_t)data[0] | (size_t)data[1] << 8, size - 2);
        write_file(names[0], data + 2, first);
        write_file(names[1], data + 2 + first, size - 2 - first);
        if (gguf_open(&g, names[0], NULL) < 0)
                return 0;
        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
                const struct gguf_tensor *t = gguf_tensor_at(g, i);

                for (uint64_t k = 0; k < t->size; k++)
                        sink += ((const uint8_t *)t->data)[k];
        }
        sink += gguf_hash_meta(g);
        if (gguf_hash_data(g, NULL, &hash) == 0)
                sink += hash;
        gguf_free(g);
        return 0;
}
