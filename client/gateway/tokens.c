/* SPDX-License-Identifier: MIT */
#include "client/gateway/tokens.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/util.h"
#include "service/secret.h"
#include "service/uid.h"

#define FILE_MAX (2u << 20)
#define BLANKS " \t\r"

bool tokens_tenant_possible(const char *label) {
        size_t n = strlen(label);

        if (n == 0 || n >= sizeof(((struct gateway_owner *)0)->tenant) || !utf8_valid(label, n))
                return false;
        for (; *label; label++)
                if ((unsigned char)*label < 0x20 || *label == 0x7f)
                        return false;
        return true;
}

/* There is room for it in @tokens->items. */
static int put_token(
        struct tokens *tokens, const char *word, const struct gateway_owner *owner, struct err *e) {
        struct token *token = &tokens->items[tokens->n];
        size_t n = strlen(word);

        if (tokens->n == TOKENS_MAX)
                return err_set(e, ERR_INVALID, "more than %d tokens", TOKENS_MAX);
        if (n < TOKEN_MIN || n >= TOKEN_MAX)
                return err_set(e, ERR_INVALID, "a token has %d to %d characters", TOKEN_MIN,
                        TOKEN_MAX - 1);
        for (size_t i = 0; i < n; i++)
                if (word[i] < 0x21 || word[i] > 0x7e)
                        return err_set(e, ERR_INVALID, "a token has characters of ASCII only");
        for (size_t i = 0; i < tokens->n; i++)
                if (strcmp(tokens->items[i].text, word) == 0)
                        return err_set(e, ERR_INVALID, "the token is there already");
        memcpy(token->text, word, n);
        token->owner = *owner;
        tokens->n++;
        return 0;
}

static int parse_token(struct tokens *tokens, const char *word, const char *user,
        const char *tenant, struct err *e) {
        struct gateway_owner owner = {};
        int r;

        r = uid_find(&owner.uid, user, e);
        if (r < 0)
                return r;
        if (tenant && !tokens_tenant_possible(tenant))
                return err_set(e, ERR_INVALID, "a tenant's label has 1 to %zu bytes of text",
                        sizeof(owner.tenant) - 1);
        if (tenant)
                memcpy(owner.tenant, tenant, strlen(tenant) + 1);
        return put_token(tokens, word, &owner, e);
}

static int parse_line(struct tokens *tokens, char *line, struct err *e) {
        char *rest = NULL, *word = strtok_r(line, BLANKS, &rest), *user, *tenant;

        if (!word || *word == '#')
                return 0;
        user = strtok_r(NULL, BLANKS, &rest);
        tenant = strtok_r(NULL, BLANKS, &rest);
        if (!user || strtok_r(NULL, BLANKS, &rest))
                return err_set(e, ERR_INVALID, "a line is TOKEN USER [TENANT]");
        return parse_token(tokens, word, user, tenant, e);
}

int tokens_parse(struct tokens *ret, char *text, struct err *e) {
        _cleanup_(tokens_deinit) struct tokens tokens = TOKENS_NULL;
        size_t n_lines = 1;
        unsigned number = 0;

        for (const char *p = text; *p; p++)
                n_lines += *p == '\n';
        tokens.items = calloc(MIN(n_lines, (size_t)TOKENS_MAX), sizeof(*tokens.items));
        if (!tokens.items)
                return err_set(e, ERR_NOMEM, "no memory for tokens");
        for (char *line = text, *next; line; line = next) {
                int r;

                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                number++;
                r = parse_line(&tokens, line, e);
                if (r < 0)
                        return err_wrap(e, r, "line %u", number);
        }
        *ret = tokens;
        tokens = TOKENS_NULL;
        return 0;
}

int tokens_add(struct tokens *tokens, const char *token, uint32_t uid, struct err *e) {
        const struct gateway_owner owner = {.uid = uid};
        struct tokens more = {.n = tokens->n};
        int r;

        more.items = calloc(tokens->n + 1, sizeof(*more.items));
        if (!more.items)
                return err_set(e, ERR_NOMEM, "no memory for tokens");
        if (tokens->n > 0)
                memcpy(more.items, tokens->items, tokens->n * sizeof(*more.items));
        r = put_token(&more, token, &owner, e);
        if (r < 0) {
                tokens_deinit(&more);
                return r;
        }
        tokens_deinit(tokens);
        *tokens = more;
        return 0;
}

int tokens_read(struct tokens *ret, const char *path, struct err *e) {
        _cleanup_(freep) char *text = NULL;
        size_t n;
        int r;

        r = secret_read(&text, path, FILE_MAX, e);
        if (r == 0) {
                n = strlen(text); /* before it is taken apart */
                r = tokens_parse(ret, text, e);
                explicit_bzero(text, n);
        }
        return err_wrap(e, r, "%s", path);
}

void tokens_deinit(struct tokens *tokens) {
        if (tokens->items)
                explicit_bzero(tokens->items, tokens->n * sizeof(*tokens->items));
        free(tokens->items);
        *tokens = TOKENS_NULL;
}

/* Looks at all bytes, wherever they differ. */
static bool is_same(const char *a, const char *b) {
        uint64_t differs = 0;

        for (size_t i = 0; i < TOKEN_MAX; i += sizeof(differs)) {
                uint64_t x, y;

                memcpy(&x, a + i, sizeof(x));
                memcpy(&y, b + i, sizeof(y));
                differs |= x ^ y;
                __asm__("" : "+r"(differs)); /* the compiler must not end the loop early */
        }
        return differs == 0;
}

const struct gateway_owner *tokens_find(const struct tokens *tokens, const char *token) {
        const struct gateway_owner *found = NULL;
        char given[TOKEN_MAX] = {};
        size_t n = strlen(token);

        if (n == 0 || n >= TOKEN_MAX)
                return NULL;
        memcpy(given, token, n);
        for (size_t i = 0; i < tokens->n; i++)
                if (is_same(given, tokens->items[i].text))
                        found = &tokens->items[i].owner;
        return found;
}
