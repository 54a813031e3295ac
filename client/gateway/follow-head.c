/* SPDX-License-Identifier: MIT */
#include "client/gateway/follow-head.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static int parse_status(
        struct follow_head *head, const char *line, bool *ret_is_1_0, struct err *e) {
        const char *code = line + 9;
        bool known = strncmp(line, "HTTP/1.", 7) == 0 && (line[7] == '0' || line[7] == '1') &&
                     line[8] == ' ';

        if (!known || !is_digit(code[0]) || !is_digit(code[1]) || !is_digit(code[2]) ||
                (code[3] && code[3] != ' '))
                return err_set(e, ERR_FORMAT, "the answer does not begin with a status");
        head->status = (unsigned)((code[0] - '0') * 100 + (code[1] - '0') * 10 + code[2] - '0');
        if (head->status < 100 || head->status > 599)
                return err_set(e, ERR_FORMAT, "the answer has the status %u", head->status);
        *ret_is_1_0 = line[7] == '0';
        return 0;
}

const char *follow_head_field(const struct follow_head *head, const char *name) {
        for (size_t i = 0; i < head->n_fields; i++)
                if (strcasecmp(head->fields[i].name, name) == 0)
                        return head->fields[i].value;
        return NULL;
}

static unsigned count(const struct follow_head *head, const char *name) {
        unsigned n = 0;

        for (size_t i = 0; i < head->n_fields; i++)
                n += strcmp(head->fields[i].name, name) == 0;
        return n;
}

static int read_length(struct follow_head *head, struct err *e) {
        const char *value = follow_head_field(head, "content-length");

        if (!value)
                return 0;
        if (count(head, "content-length") > 1 || !http_read_length(value, &head->length))
                return err_set(e, ERR_FORMAT, "Content-Length of the answer is not one number");
        head->has_length = true;
        return 0;
}

static int read_framing(struct follow_head *head, bool is_1_0, bool is_head, struct err *e) {
        const char *coding = follow_head_field(head, "transfer-encoding");
        int r = read_length(head, e);

        if (r < 0)
                return r;
        if (coding && (head->has_length || is_1_0 || count(head, "transfer-encoding") > 1 ||
                              strcasecmp(coding, "chunked") != 0))
                return err_set(e, ERR_FORMAT, "it is unclear where the answer ends");
        if (is_head || head->status < 200 || head->status == 204 || head->status == 304)
                head->framing = FOLLOW_NO_BODY;
        else
                head->framing = coding             ? FOLLOW_CHUNKED
                                : head->has_length ? FOLLOW_SIZED
                                                   : FOLLOW_TO_END;
        return 0;
}

int follow_head_parse(
        struct follow_head *ret, const char *text, size_t size, bool is_head, struct err *e) {
        char *line, *next;
        size_t n_lines = 0;
        bool is_1_0 = false;
        int r;

        for (size_t i = 0; i < size; i++)
                n_lines += text[i] == '\n';
        if (n_lines < 2 || text[0] == '\r')
                return err_set(e, ERR_FORMAT, "the answer does not begin with a status");
        if (n_lines - 2 > HTTP_MAX_FIELDS)
                return err_set(
                        e, ERR_FORMAT, "the answer has more than %d fields", HTTP_MAX_FIELDS);
        ret->text = text_dup(text, size);
        ret->fields = calloc(n_lines, sizeof(*ret->fields));
        if (!ret->text || !ret->fields)
                return err_no_memory(e);
        line = ret->text;
        next = http_cut_line(line);
        r = parse_status(ret, line, &is_1_0, e);
        while (r == 0 && *next != '\r') {
                const char *wrong;

                line = next;
                next = http_cut_line(line);
                wrong = http_cut_field(&ret->fields[ret->n_fields], line);
                if (wrong)
                        return err_set(e, ERR_FORMAT, "the answer has %s", wrong);
                ret->n_fields++;
        }
        return r < 0 ? r : read_framing(ret, is_1_0, is_head, e);
}

void follow_head_deinit(struct follow_head *head) {
        free(head->text);
        free(head->fields);
        *head = FOLLOW_HEAD_NULL;
}
