/* SPDX-License-Identifier: MIT */
#include "daemon/settings.h"

int settings_init(struct settings *ret, struct err *e) {
        return conf_init(&settings_conf, ret, e);
}

int settings_load(struct settings *ret, int argc, char *const *argv, enum conf_action *ret_action,
        struct err *e) {
        return conf_load(&settings_conf, ret, argc, argv, ret_action, e);
}

int settings_reload(struct settings *s, int argc, char *const *argv, char *ret_waiting, size_t size,
        struct err *e) {
        return conf_reload(&settings_conf, s, argc, argv, ret_waiting, size, e);
}

int settings_copy(struct settings *ret, const struct settings *s, struct err *e) {
        return conf_copy(&settings_conf, ret, s, e);
}

void settings_deinit(struct settings *s) {
        conf_deinit(&settings_conf, s);
}

int settings_set(struct settings *s, const char *name, const char *value, struct err *e) {
        return conf_set(&settings_conf, s, name, value, e);
}

int settings_parse_file(struct settings *s, const char *path, struct err *e) {
        return conf_parse_file(&settings_conf, s, path, e);
}

int settings_each_file(const struct settings *s, conf_file_fn *fn, void *arg, struct err *e) {
        return conf_each_file(&settings_conf, s, fn, arg, e);
}

const struct setting *settings_find(const char *name, size_t name_size) {
        return conf_find(&settings_conf, name, name_size);
}

int settings_print_help(struct buf *out) {
        return conf_print_help(&settings_conf, out);
}

int settings_print_man(struct buf *out, bool flags) {
        return conf_print_man(&settings_conf, out, flags);
}

int settings_print_value(struct buf *out, const struct settings *s, const struct setting *t) {
        return conf_print_value(out, s, t);
}
