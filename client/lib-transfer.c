/* SPDX-License-Identifier: MIT */
/* Export and import as one blocking call each. */
#include "base/file.h"
#include "client/lib-internal.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define COPY_SIZE (256u << 10)

struct taken {
        struct confab_exported exported;
        int error;
};

static void take(void *userdata, const struct confab_event *event) {
        struct taken *t = userdata;

        if (event->kind != CONFAB_EVENT_EXPORTED)
                return;
        t->exported = *event->exported;
        t->exported.fd = fcntl(event->exported->fd, F_DUPFD_CLOEXEC, 0);
        t->error = t->exported.fd < 0 ? errno : 0;
}

int confab_export(struct confab *c, const struct confab_request *from, int *ret_fd,
        struct confab_exported *ret, struct confab_error *e) {
        struct taken t = {.exported = {.fd = -1}};
        struct confab_request r;
        struct err err;

        if (request_normalise(&r, from, &err) < 0)
                return error_from_err(e, &err);
        r.size = sizeof(r);
        r.verb = CONFAB_EXPORT;
        if (confab_call(c, &r, take, &t, e) < 0)
                return -1;
        if (t.error)
                return error_set(e, CONFAB_SYSTEM, true, "cannot keep the file descriptor: %s",
                        strerrordesc_np(t.error));
        if (ret)
                *ret = t.exported;
        *ret_fd = t.exported.fd;
        return 0;
}

static bool is_sealed(int fd) {
        int seals = fcntl(fd, F_GET_SEALS);

        return seals >= 0 && (seals & SEALS) == SEALS && lseek(fd, 0, SEEK_CUR) == 0;
}

/* The rest of @from in a memfd: its descriptor, or -1. */
static int copy_sealed(int from, struct confab_error *e) {
        int fd = memfd_create("confab-import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        char *data = malloc(COPY_SIZE);
        const char *what = "copy";
        struct err err;
        ssize_t n = -1;

        if (!data)
                errno = ENOMEM;
        while (fd >= 0 && data) {
                n = read(from, data, COPY_SIZE);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        what = "read";
                if (n <= 0)
                        break;
                if (file_write(fd, data, (size_t)n, &err) < 0) {
                        errno = err.sys;
                        break;
                }
        }
        if (n == 0 && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0)
                n = -1;
        if (n != 0)
                error_set(e, errno == ENOMEM ? CONFAB_NO_MEMORY : CONFAB_SYSTEM, false,
                        "cannot %s what is to be imported: %s", what, strerrordesc_np(errno));
        free(data);
        if (n != 0 && fd >= 0)
                close(fd);
        return n == 0 ? fd : -1;
}

int confab_import(struct confab *c, int fd, const char *name, confab_event_fn fn, void *userdata,
        struct confab_error *e) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int copy = -1, k;

        if (!is_sealed(fd)) {
                copy = copy_sealed(fd, e);
                if (copy < 0)
                        return -1;
        }
        r.verb = CONFAB_IMPORT;
        r.name = name;
        r.has_fd = true;
        r.fd = copy >= 0 ? copy : fd;
        k = confab_call(c, &r, fn, userdata, e);
        if (copy >= 0)
                close(copy);
        return k;
}
