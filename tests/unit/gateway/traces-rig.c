/* SPDX-License-Identifier: MIT */
#include "unit/gateway/traces-rig.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "util/shared.h"
#include "util/test.h"

static const char *folder(void) {
        const char *path = test_shared("../facts/http/traces");

        if (!path) {
                print_message("SKIP: no recorded traces (CONFAB_SHARED)\n");
                skip();
        }
        return path;
}

static void drop_remarks(json_t *body) {
        json_t *tools = json_object_get(body, "tools");

        for (size_t i = json_array_size(tools); i-- > 0;)
                if (json_is_string(json_array_get(tools, i)))
                        json_array_remove(tools, i);
}

bool traces_check(const char *name, trace_check check, void *userdata) {
        struct trace trace = {.name = name};
        char path[5000];
        json_error_t error;
        json_t *file;
        bool is_ours;

        snprintf(path, sizeof(path), "%s/%s", folder(), name);
        file = json_load_file(path, 0, &error);
        if (!file)
                fail_msg("%s: %s", path, error.text);
        trace.path = json_string_value(json_object_get(file, "path"));
        trace.body = json_object_get(file, "body");
        assert_non_null(trace.path);
        drop_remarks(trace.body);
        is_ours = check(&trace, userdata);
        json_decref(file);
        return is_ours;
}

int traces_check_all(trace_check check, void *userdata) {
        struct dirent *entry;
        DIR *dir = opendir(folder());
        int n = 0;

        assert_non_null(dir);
        while ((entry = readdir(dir))) {
                size_t length = strlen(entry->d_name);

                if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0)
                        n += traces_check(entry->d_name, check, userdata);
        }
        closedir(dir);
        return n;
}
