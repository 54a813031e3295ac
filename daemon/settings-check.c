/* SPDX-License-Identifier: MIT */
/* What settings have to be together. */
#include "base/err.h"
#include "daemon/settings.h"
#include "daemon/trusted.h"
#include <string.h>

static int no_model(const struct settings *s, struct err *e) {
        if (s->config)
                return err_set(e, ERR_INVALID, "no model: put 'model = FILE' into %s", s->config);
        return err_set(e, ERR_INVALID, "no model: give --model FILE");
}

static int hex(char c) {
        return c >= '0' && c <= '9'                 ? c - '0'
               : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                    : -1;
}

/* Whether a part of a URI, in which characters may be written as %XX, has this word. */
static bool has_word(const char *part, const char *word) {
        for (const char *at = part; *at; at++) {
                const char *s = at;
                size_t n = 0;

                while (word[n]) {
                        bool coded = s[0] == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0;
                        int c = coded ? hex(s[1]) << 4 | hex(s[2]) : (unsigned char)*s;

                        if (c != word[n])
                                break;
                        s += coded ? 3 : 1;
                        n++;
                }
                if (!word[n])
                        return true;
        }
        return false;
}

/* Of a gateway, and nothing behind its host. */
static int check_address(const char *url, struct err *e) {
        const char *host;

        if (!url)
                return 0;
        host = strncmp(url, "https://", 8) == 0  ? url + 8
               : strncmp(url, "http://", 7) == 0 ? url + 7
                                                 : "";
        if (!*host || strlen(url) > 256 || host[strcspn(host, "/?#@ \t")])
                return err_set(e, ERR_INVALID,
                        "address: https://HOST or https://HOST:PORT is needed, in 256 bytes");
        return 0;
}

/* A URI of libpq's, and no secret in it: settings are shown. */
static int check_store(const char *uri, struct err *e) {
        const char *authority, *end, *at;

        if (!uri)
                return 0;
        authority = strncmp(uri, "postgresql://", 13) == 0 ? uri + 13
                    : strncmp(uri, "postgres://", 11) == 0 ? uri + 11
                                                           : NULL;
        if (!authority)
                return err_set(e, ERR_INVALID,
                        "store: a URI that begins with postgresql:// is needed, as in "
                        "postgresql://confab@/confab?host=/run/postgresql");
        end = authority + strcspn(authority, "/?");
        at = memchr(authority, '@', (size_t)(end - authority));
        if ((at && memchr(authority, ':', (size_t)(at - authority))) || has_word(end, "password="))
                return err_set(e, ERR_INVALID,
                        "store: no password in settings, which are shown to administrators: name a "
                        "file by ?passfile=FILE");
        return 0;
}

/* The engine knows more of such URIs. Here is what a look at the settings alone shall find. */
static int check_remote(const struct settings *s, struct err *e) {
        static const char plain[] = "redis://", secure[] = "rediss://";
        const char *uri = s->remote;
        bool tls;

        if (!uri)
                return 0;
        tls = strncmp(uri, secure, strlen(secure)) == 0;
        if (!tls && strncmp(uri, plain, strlen(plain)) != 0)
                return err_set(e, ERR_INVALID,
                        "remote: a URI that begins with redis:// or rediss:// is needed, as in "
                        "redis://cache.example:6379");
        if (strchr(uri, '@') && strncmp(uri, "redis:///", strlen("redis:///")) != 0)
                return err_set(e, ERR_INVALID,
                        "remote: no name or password in the URI, which is shown to administrators: "
                        "use remote-user and remote-password-file");
        if (s->remote_user && !s->remote_password_file)
                return err_set(e, ERR_INVALID, "remote-user takes a remote-password-file");
        if (s->remote_ca_file && !tls)
                return err_set(e, ERR_INVALID, "remote-ca-file takes a remote of rediss://");
        return 0;
}

/* Settings that only make sense together. */
int settings_check(const void *settings, struct err *e) {
        const struct settings *s = settings;
        _cleanup_(trusted_deinit) struct trusted trusted = TRUSTED_NULL;

        if (!s->model)
                return no_model(s, e);
        if (s->output_low >= s->output_high)
                return err_set(e, ERR_INVALID, "output-low must be less than output-high");
        if (s->output_high >= s->output_limit)
                return err_set(e, ERR_INVALID, "output-high must be less than output-limit");
        if (check_store(s->store, e) < 0 || check_address(s->address, e) < 0 ||
                check_remote(s, e) < 0)
                return -ERR_INVALID;
        return trusted_parse(&trusted, s->trusted_users, e);
}
