/* SPDX-License-Identifier: MIT */
/*
 * TLS over a socket that does not block, by OpenSSL.
 *
 * hiredis has a layer for TLS of its own (since 1.0), which checks that somebody the system trusts has signed the certificate, but not
 * whose it is. So it is not used: here the certificate must be the server's that was wanted, by name or by address.
 *
 * OpenSSL writes to sockets with write(), which may end the process by SIGPIPE. So its bytes go through send() here (a BIO).
 */
#include "base/util.h"
#include "remote/remote-private.h"

#ifdef REMOTE_HAS_TLS
#include <arpa/inet.h>
#include <errno.h>
/* The name of a type there, and of a code of ours. */
#define ERR_STATE openssl_err_state
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
#include <sys/socket.h>

struct tls_context {
        SSL_CTX *ssl;
        BIO_METHOD *method;
};

struct tls {
        SSL *ssl;
        int fd;
};

bool remote_has_tls(void) {
        return true;
}

/* --- the socket --- */

static int socket_write(BIO *b, const char *data, int n) {
        const struct tls *t = BIO_get_data(b);
        ssize_t sent = send(t->fd, data, (size_t)n, MSG_NOSIGNAL);

        BIO_clear_retry_flags(b);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                BIO_set_retry_write(b);
        return (int)sent;
}

static int socket_read(BIO *b, char *data, int n) {
        const struct tls *t = BIO_get_data(b);
        ssize_t got = recv(t->fd, data, (size_t)n, 0);

        BIO_clear_retry_flags(b);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
                BIO_set_retry_read(b);
        return (int)got;
}

static long socket_control(BIO *b, int command, long n, void *p) {
        (void)b;
        (void)n;
        (void)p;
        return command == BIO_CTRL_FLUSH; /* nothing is held back */
}

static BIO_METHOD *socket_method(void) {
        BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "confab socket");

        if (m) {
                BIO_meth_set_write(m, socket_write);
                BIO_meth_set_read(m, socket_read);
                BIO_meth_set_ctrl(m, socket_control);
        }
        return m;
}

/* --- contexts --- */

/* Why the last call failed, in OpenSSL's words; empties the thread's list of errors. */
static const char *last_words(const char *otherwise) {
        const char *why = ERR_reason_error_string(ERR_peek_last_error());

        ERR_clear_error();
        return why ? why : otherwise;
}

struct tls_context *remote_tls_context_free(struct tls_context *c) {
        if (!c)
                return NULL;
        SSL_CTX_free(c->ssl);
        BIO_meth_free(c->method);
        free(c);
        return NULL;
}

int remote_tls_context_new(struct tls_context **ret, const char *ca_file, struct err *e) {
        struct tls_context *c = calloc(1, sizeof(*c));
        int ok;

        if (!c)
                return err_no_memory(e);
        ERR_clear_error();
        c->method = socket_method();
        c->ssl = SSL_CTX_new(TLS_client_method());
        if (!c->ssl || !c->method) {
                remote_tls_context_free(c);
                return err_no_memory(e);
        }
        SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION);
        SSL_CTX_set_options(c->ssl, SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                         SSL_MODE_RELEASE_BUFFERS);
        ok = ca_file ? SSL_CTX_load_verify_locations(c->ssl, ca_file, NULL)
                     : SSL_CTX_set_default_verify_paths(c->ssl);
        if (ok != 1) {
                remote_tls_context_free(c);
                return err_set(e, ERR_INVALID, "certificates of %s: %s",
                        ca_file ? ca_file : "the system", last_words("can't be read"));
        }
        *ret = c;
        return 0;
}

/* --- connections --- */

struct tls *remote_tls_free(struct tls *t) {
        if (t)
                SSL_free(t->ssl);
        free(t);
        return NULL;
}

/* The certificate must be of @host. */
static bool expect(SSL *ssl, const char *host) {
        unsigned char binary[sizeof(struct in6_addr)];

        if (inet_pton(AF_INET, host, binary) == 1 || inet_pton(AF_INET6, host, binary) == 1)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        /* As SSL_set_tlsext_host_name() does, whose cast compilers complain of. */
        return SSL_set1_host(ssl, host) == 1 &&
               SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                       (void *)(uintptr_t)host) == 1;
}

int remote_tls_new(
        struct tls **ret, struct tls_context *c, int fd, const char *host, struct err *e) {
        struct tls *t = calloc(1, sizeof(*t));
        BIO *bio = BIO_new(c->method);

        if (t) {
                t->ssl = SSL_new(c->ssl);
                t->fd = fd;
        }
        if (!t || !t->ssl || !bio || !expect(t->ssl, host)) {
                BIO_free(bio);
                remote_tls_free(t);
                ERR_clear_error();
                return err_no_memory(e);
        }
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
        SSL_set_bio(t->ssl, bio, bio);
        SSL_set_connect_state(t->ssl);
        *ret = t;
        return 0;
}

/* What a call means that returned @r, which is no success. */
static int outcome(struct tls *t, int r, const char **ret_why) {
        int saved = errno, kind = SSL_get_error(t->ssl, r);
        long verdict = SSL_get_verify_result(t->ssl);

        if (kind == SSL_ERROR_WANT_READ)
                return REMOTE_TLS_WANTS_READ;
        if (kind == SSL_ERROR_WANT_WRITE)
                return REMOTE_TLS_WANTS_WRITE;
        if (kind == SSL_ERROR_ZERO_RETURN)
                return REMOTE_TLS_CLOSED;
        if (verdict != X509_V_OK)
                *ret_why = X509_verify_cert_error_string(verdict);
        else
                *ret_why = last_words(r < 0 && saved ? strerrordesc_np(saved) : "it has hung up");
        ERR_clear_error();
        return -1;
}

int remote_tls_handshake(struct tls *t, const char **ret_why) {
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_do_handshake(t->ssl);
        return r == 1 ? 1 : outcome(t, r, ret_why);
}

ssize_t remote_tls_send(struct tls *t, const void *data, size_t n, const char **ret_why) {
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_write(t->ssl, data, (int)MIN(n, (size_t)INT32_MAX));
        return r > 0 ? r : outcome(t, r, ret_why);
}

ssize_t remote_tls_receive(struct tls *t, void *data, size_t n, const char **ret_why) {
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_read(t->ssl, data, (int)MIN(n, (size_t)INT32_MAX));
        return r > 0 ? r : outcome(t, r, ret_why);
}

#else /* a build without OpenSSL: contexts can't be made, so there are no connections */

bool remote_has_tls(void) {
        return false;
}

int remote_tls_context_new(struct tls_context **ret, const char *ca_file, struct err *e) {
        return err_set(e, ERR_UNSUPPORTED,
                "rediss: this confab was built without TLS: use a local TLS proxy");
}

struct tls_context *remote_tls_context_free(struct tls_context *c) {
        return NULL;
}

int remote_tls_new(
        struct tls **ret, struct tls_context *c, int fd, const char *host, struct err *e) {
        return err_set(e, ERR_UNSUPPORTED, "this confab was built without TLS");
}

struct tls *remote_tls_free(struct tls *t) {
        return NULL;
}

int remote_tls_handshake(struct tls *t, const char **ret_why) {
        *ret_why = "no TLS";
        return -1;
}

ssize_t remote_tls_send(struct tls *t, const void *data, size_t n, const char **ret_why) {
        return remote_tls_handshake(t, ret_why);
}

ssize_t remote_tls_receive(struct tls *t, void *data, size_t n, const char **ret_why) {
        return remote_tls_handshake(t, ret_why);
}
#endif
