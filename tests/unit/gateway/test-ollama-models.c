/* SPDX-License-Identifier: MIT */
/* What is told of models in Ollama's dialect. */
#include "base/json.h"
#include "client/gateway/ollama.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"
#include <string.h>

static const struct backend_model model = {
        .known = true,
        .name = "small",
        .architecture = "llama",
        .fingerprint = "0a0b",
        .context = 2048,
        .n_vocab = 100,
        .n_embd = 64,
        .n_params = 134500000,
        .weights_size = 77,
        .takes_tools = true,
        .since_usec = 1000000,
};

#define DETAILS                                                                                    \
        "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":\"llama\","             \
        "\"families\":[\"llama\"],\"parameter_size\":\"134.5M\",\"quantization_level\":"           \
        "\"unknown\"}"

static void check_item(const struct backend_model *m, bool loaded, const char *expected) {
        struct buf out = BUF_NULL;
        struct json j;

        json_init(&j, &out);
        ollama_put_model(&j, m, loaded);
        assert_int_equal(json_finish(&j), 0);
        assert_int_equal(strncmp((const char *)out.data, expected, strlen(expected)), 0);
        buf_deinit(&out);
}

static void test_item(void **state) {
        struct backend_model tagged = model;

        check_item(&model, false,
                "{\"name\":\"small:latest\",\"model\":\"small:latest\","
                "\"modified_at\":\"1970-01-01T00:00:01.000000Z\",\"size\":77,\"digest\":"
                "\"0a0b\"," DETAILS ",\"capabilities\":[\"completion\",\"tools\"]}");
        check_item(&model, true,
                "{\"name\":\"small:latest\",\"model\":\"small:latest\",\"size\":77,\"digest\":"
                "\"0a0b\"," DETAILS ",\"expires_at\":\"2");
        strcpy(tagged.name, "small:q4");
        check_item(&tagged, false, "{\"name\":\"small:q4\",\"model\":\"small:q4\",");
}

static void test_show(void **state) {
        struct buf out = BUF_NULL;

        assert_int_equal(ollama_write_show(&out, &model), 0);
        assert_string_equal((const char *)out.data,
                "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\"," DETAILS ","
                "\"model_info\":{\"general.architecture\":\"llama\",\"general.basename\":\"small\","
                "\"general.parameter_count\":134500000,\"llama.context_length\":2048,"
                "\"llama.embedding_length\":64,\"llama.vocab_size\":100},"
                "\"capabilities\":[\"completion\",\"tools\"],"
                "\"modified_at\":\"1970-01-01T00:00:01.000000Z\"}");
        buf_deinit(&out);
}

static void check_size(uint64_t n_params, const char *expected) {
        struct backend_model m = model;
        struct buf out = BUF_NULL;

        m.n_params = n_params;
        assert_int_equal(ollama_write_show(&out, &m), 0);
        assert_non_null(strstr((const char *)out.data, expected));
        buf_deinit(&out);
}

static void test_size(void **state) {
        check_size(8030000000, "\"parameter_size\":\"8.0B\"");
        check_size(1000000, "\"parameter_size\":\"1.0M\"");
        check_size(999000, "\"parameter_size\":\"999.0K\"");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_item),
                cmocka_unit_test(test_show),
                cmocka_unit_test(test_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
