/* SPDX-License-Identifier: MIT */
/* Prints the table of pre-tokenizers for pretok-json.py: names, a tab, flags, and a tab and a rule
 * for each rule. */
#include <stdio.h>

#include "tok/tok-internal.h"

int main(void) {
        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                const struct tok_pretok_row *row = &tok_pretok_table[i];

                printf("%s\t%u", row->names, row->flags);
                for (size_t k = 0; k < TOK_PRETOK_MAX_RULES && row->rules[k]; k++)
                        printf("\t%s", row->rules[k]);
                putchar('\n');
        }
        return 0;
}
