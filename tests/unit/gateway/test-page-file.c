/* SPDX-License-Identifier: MIT */
/* Which files the page has, how they are opened, and how browsers keep them. */
#include "base/buf.h"
#include "client/gateway/page-libs.h"
#include "util/fds.h"
#include "util/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/confab-test-page-XXXXXX";

static const char *at(const char *path) {
        static char text[PATH_MAX];

        snprintf(text, sizeof(text), "%s/%s", folder, path);
        return text;
}

static void write_file(const char *path, const char *text) {
        FILE *f = fopen(at(path), "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        fclose(f);
}

static int set_up(void **state) {
        assert_non_null(mkdtemp(folder));
        assert_int_equal(mkdir(at("js"), 0755), 0);
        assert_int_equal(mkdir(at("javascript"), 0755), 0);
        assert_int_equal(mkdir(at("javascript/katex"), 0755), 0);
        write_file("js/a.js", "let a;");
        write_file("javascript/katex/katex.css", "second");
        assert_int_equal(symlink("a.js", at("js/link.js")), 0);
        assert_int_equal(symlink("js", at("other")), 0);
        assert_int_equal(mkfifo(at("pipe.js"), 0644), 0);
        return 0;
}

static int tear_down(void **state) {
        static const char *const files[] = {"pipe.js", "other", "js/link.js", "js/a.js",
                "javascript/katex/katex.min.css", "javascript/katex/katex.css"},
                                 *const folders[] = {"javascript/katex", "javascript", "js"};

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                unlink(at(files[i]));
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
                rmdir(at(folders[i]));
        return rmdir(folder);
}

static void test_types(void **state) {
        static const char *const none[] = {"", "js", "a", "a.", ".", "a.c", "a.JS", "a.js.bak",
                "a.js/b", "a.jsx", "a.js ", "a.json"};

        assert_string_equal(page_type("index.html"), "text/html; charset=utf-8");
        assert_string_equal(page_type("js/main.js"), "text/javascript; charset=utf-8");
        assert_string_equal(page_type("a.b/c.woff2"), "font/woff2");
        assert_string_equal(page_type("x.min.css"), "text/css; charset=utf-8");
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
                assert_null(page_type(none[i]));
}

static void test_paths(void **state) {
        static const char *const good[] = {
                "a", "a.js", "a/b/c.d", "a b/\xc3\xbc.txt", "a..b", "a./b", "-"};
        static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..",
                "a/../b", ".a", "a/.b", "a/.b/c", "...", "./a"};
        char name[NAME_MAX + 2] = "";

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_true(page_path_allowed(good[i]));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(page_path_allowed(bad[i]));
        memset(name, 'a', NAME_MAX);
        assert_true(page_path_allowed(name));
        name[NAME_MAX] = 'a';
        assert_false(page_path_allowed(name));
}

static bool opens(const char *below, const char *path, bool is_system) {
        const struct page_name name = {below, path, is_system};
        struct page_identity identity;
        int fd = page_open(&name, &identity);

        if (fd < 0) {
                assert_int_equal(errno, ENOENT);
                return false;
        }
        assert_int_equal(identity.size, 6);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
        return true;
}

static void test_open(void **state) {
        size_t n_fds = test_count_fds();

        assert_true(opens(folder, "js/a.js", false));
        assert_true(opens(at("js"), "a.js", false));
        assert_true(opens(folder, "js/a.js", true));
        /* links lead on in files of the system alone */
        assert_false(opens(folder, "js/link.js", false));
        assert_false(opens(folder, "other/a.js", false));
        assert_true(opens(folder, "js/link.js", true));
        assert_true(opens(folder, "other/a.js", true));
        assert_true(opens(at("other"), "a.js", false)); /* the folder itself may be one */
        for (int is_system = 0; is_system < 2; is_system++) {
                assert_false(opens(NULL, "js/a.js", is_system));
                assert_false(opens(folder, "js", is_system));
                assert_false(opens(folder, "js/b.js", is_system));
                assert_false(opens(folder, "js/a.js/a.js", is_system));
                assert_false(opens(folder, "pipe.js", is_system));
                assert_false(opens(folder, "../a.js", is_system));
                assert_false(opens(at("none"), "a.js", is_system));
                assert_false(opens(at("js/a.js"), "a.js", is_system));
        }
        assert_int_equal(test_count_fds(), n_fds);
}

static void test_identity(void **state) {
        const struct page_identity a = {1, 2, 3, 4};
        struct page_identity b = a;
        char tag[PAGE_TAG_SIZE], other[PAGE_TAG_SIZE];

        assert_true(page_same(&a, &b));
        page_tag(&a, tag);
        assert_string_equal(tag, "\"3-4-2\"");
        for (size_t i = 0; i < 4; i++) {
                b = a;
                ((uint64_t *)&b)[i]++;
                assert_false(page_same(&a, &b));
                page_tag(&b, other);
                assert_true(i == 0 || strcmp(tag, other) != 0);
        }
        b = (struct page_identity){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
        page_tag(&b, tag);
        assert_int_equal(strlen(tag), 52);
}

static void test_tags(void **state) {
        static const char *const good[] = {"\"a\"", " \"a\" ", "W/\"a\"", "\"b\",\"a\"",
                "\"b\", W/\"a\"", "*", "\"x,\\\"a\" , \"a\"", ",,\"a\""};
        static const char *const bad[] = {"", "\"", "a", "\"b\"", "\"ab\"", "\"b", "\"b,\"a\"",
                "W/", "w/\"a\"", "\"b\"\"a\"", ",", "x\"a\""};

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                if (!page_tag_matches(good[i], "\"a\""))
                        fail_msg("%s", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (page_tag_matches(bad[i], "\"a\""))
                        fail_msg("%s", bad[i]);
        assert_false(page_tag_matches(NULL, "\"a\""));
}

static void test_libs(void **state) {
        struct page_name name = {};
        char path[PAGE_FONT_SIZE];
        struct buf list = BUF_NULL;

        assert_true(page_libs_find(&name, folder, "katex.css"));
        assert_string_equal(name.path, "javascript/katex/katex.css");
        assert_true(name.is_system);
        write_file("javascript/katex/katex.min.css", "first!");
        assert_true(page_libs_find(&name, folder, "katex.css"));
        assert_string_equal(name.path, "javascript/katex/katex.min.css");
        assert_false(page_libs_find(&name, folder, "katex.mjs"));
        assert_false(page_libs_find(&name, folder, "javascript/katex/katex.css"));
        assert_false(page_libs_find(&name, NULL, "katex.css"));
        assert_false(page_libs_find_font(&name, folder, "none.woff2", path));
        assert_false(page_libs_find_font(&name, folder, "../katex.css", path));
        assert_int_equal(page_libs_list(&list, folder), 0);
        assert_string_equal((char *)list.data,
                "{\"markdown-it.js\":false,\"purify.js\":false,\"highlight.js\":false,"
                "\"katex.mjs\":false,\"katex.css\":true}");
        buf_deinit(&list);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_paths),
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_identity),
                cmocka_unit_test(test_tags),
                cmocka_unit_test(test_libs),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
