/* SPDX-License-Identifier: MIT */
#include "service/secret.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What a service manager hands to a service (systemd's credentials) is root's, read-only, and an ACL lets the service read it: then the
 * mode has the ACL's mask where the group's bits are. */
static bool is_credential(const struct stat *st) {
        return (st->st_mode & 07777) == 0440 && st->st_uid == 0 && st->st_gid == 0;
}

static int check_file(const struct stat *st, size_t max, struct err *e) {
        if (!S_ISREG(st->st_mode))
                return err_set(e, ERR_INVALID, "it is not a file");
        if ((uint64_t)st->st_size > max)
                return err_set(e, ERR_INVALID, "it has more than %zu bytes", max);
        if (st->st_mode & 077 && !is_credential(st))
                return err_set(e, ERR_PERMISSION,
                        "its mode is %04o: it must be readable by its owner only (0600)",
                        st->st_mode & 07777);
        if (st->st_uid != 0 && st->st_uid != geteuid())
                return err_set(e, ERR_PERMISSION, "it belongs to user %u, neither root nor %u",
                        st->st_uid, geteuid());
        return 0;
}

int secret_read(char **ret, const char *path, size_t max, struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_(secret_freep) char *text = NULL;
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot open it");
        r = check_file(&st, max, e);
        if (r < 0)
                return r;
        text = calloc(1, (size_t)st.st_size + 1);
        if (!text)
                return err_set(e, ERR_NOMEM, "no memory for it");
        r = file_pread(fd, text, (size_t)st.st_size, 0, e);
        if (r < 0)
                return r;
        if (strlen(text) != (size_t)st.st_size) {
                explicit_bzero(text, (size_t)st.st_size); /* secret_free() goes as far as the NUL */
                return err_set(e, ERR_INVALID, "it has a NUL byte");
        }
        *ret = TAKE_PTR(text);
        return 0;
}

int secret_read_line(char **ret, const char *path, size_t max, struct err *e) {
        _cleanup_(secret_freep) char *text = NULL;
        size_t n;
        int r = secret_read(&text, path, max, e);

        if (r < 0)
                return r;
        n = strcspn(text, "\r\n");
        if (n == 0)
                return err_set(e, ERR_INVALID, "its first line is empty");
        explicit_bzero(text + n, strlen(text + n));
        *ret = TAKE_PTR(text);
        return 0;
}

char *secret_free(char *text) {
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
        return NULL;
}
