/* SPDX-License-Identifier: MIT */
#include "service/uid.h"
#include "base/cleanup.h"
#include "base/err.h"
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int uid_find(uint32_t *ret, const char *word, struct err *e) {
        const struct passwd *p;

        if (!word[strspn(word, "0123456789")]) {
                unsigned long long n = strtoull(word, NULL, 10);

                if (n >= UINT32_MAX) /* which is no user */
                        return err_set(e, ERR_INVALID, "no user has the number %s", word);
                *ret = (uint32_t)n;
                return 0;
        }
        p = getpwnam(word);
        if (!p)
                return err_set(e, ERR_INVALID, "unknown user '%s'", word);
        *ret = p->pw_uid;
        return 0;
}

/* ---- the other end of a connection ---- */

#define ESTABLISHED 1

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

/* As the table has it: words of the address as numbers of this machine, and the port. */
static void print_address(char ret[48], const union address *address) {
        uint32_t words[4];

        if (address->any.sa_family == AF_INET) {
                snprintf(ret, 48, "%08X:%04X", address->v4.sin_addr.s_addr,
                        ntohs(address->v4.sin_port));
                return;
        }
        memcpy(words, &address->v6.sin6_addr, sizeof(words));
        snprintf(ret, 48, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
                ntohs(address->v6.sin6_port));
}

int uid_of_tcp_peer(uint32_t *ret, int fd, struct err *e) {
        _cleanup_(fclosep) FILE *table = NULL;
        union address own = {}, peer = {};
        socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
        char wanted_local[48], wanted_remote[48], line[256];

        if (getsockname(fd, &own.any, &own_size) < 0 || getpeername(fd, &peer.any, &peer_size) < 0)
                return err_set(e, ERR_SYS, "cannot look at a connection");
        table = fopen(own.any.sa_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
        if (!table)
                return err_set(e, ERR_SYS, "cannot read the table of connections");
        /* What is remote here is local there. */
        print_address(wanted_local, &peer);
        print_address(wanted_remote, &own);
        while (fgets(line, sizeof(line), table)) {
                char local[48], remote[48];
                unsigned state, uid;

                /* A socket that its process has closed is nobody's, and says 0. */
                if (sscanf(line, " %*u: %47s %47s %x %*s %*s %*s %u", local, remote, &state,
                            &uid) == 4 &&
                        state == ESTABLISHED && strcmp(local, wanted_local) == 0 &&
                        strcmp(remote, wanted_remote) == 0) {
                        *ret = uid;
                        return 0;
                }
        }
        return err_set(e, ERR_NOT_FOUND, "the other end is no process of this machine");
}
