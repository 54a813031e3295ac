/* SPDX-License-Identifier: MIT */
/*
 * What a family leaves out of a template. A template is a program, and a family only the form of its
 * messages; what else the program does shows in its text, by the names and strings that it needs
 * for it. So a template may have a mark here and yet never use it: then the sentence says too much,
 * never too little.
 */
#include "base/util.h"
#include "chat/chat-internal.h"

enum { MAX_MARKS = 6 };

static bool has_any(const char *text, size_t size, const char *const marks[MAX_MARKS]) {
        for (size_t i = 0; i < MAX_MARKS && marks[i]; i++)
                if (chat_has(text, size, marks[i]))
                        return true;
        return false;
}

void chat_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1], const struct chat_family *family,
        bool trim, const char *text, size_t size) {
        static const char *const trims[MAX_MARKS] = {"| trim", "|trim", ".strip(", "strip()"};
        static const struct {
                const char *marks[MAX_MARKS];
                const char *sentence;
        } rows[] = {
                {{"strftime_now", "date_string", "Today Date", "Knowledge Date"},
                        "the dates that it puts before or into the system text are left out"},
                {{"You are "}, "its own system text, for conversations without one, is left out"},
                {{"think>", "reasoning_content"},
                        "its rules for reasoning are left out: earlier replies keep theirs, and no "
                        "mark is put in front of a reply"},
        };
        bool trims_some = has_any(text, size, trims);
        size_t n = 0;

        if (!family) {
                ret[n++] = "it is like none of the families: only raw text is possible";
                ret[n] = NULL;
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (has_any(text, size, rows[i].marks))
                        ret[n++] = rows[i].sentence;
        if (trims_some && !trim)
                ret[n++] = "white space at the ends of messages stays, which it may take off";
        else if (trim && !trims_some)
                ret[n++] = "white space at the ends of messages is taken off, which it leaves";
        ret[n] = NULL;
}
