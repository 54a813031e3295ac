/* SPDX-License-Identifier: MIT */
#include "fuzz/grammar/fuzz-grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        fuzz_grammar(GRAMMAR_PARTS, data, size);
        return 0;
}
