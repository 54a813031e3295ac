/* SPDX-License-Identifier: MIT */
/*
 * What confab does otherwise than the model's template, as sentences.
 *
 * A template that runs was tried out (learn.c), so what is said of it is so. A family is only like
 * the template: what else the template does shows in its text, by the names and strings that it needs
 * for it. It may have a mark here and yet never use it: then the sentence says too much, never too
 * little.
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

void chat_family_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1],
        const struct chat_family *family, bool trim, const char *text, size_t size) {
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

        while (ret[n])
                n++;
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

void chat_template_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1], unsigned notes) {
        static const struct {
                enum chat_notes note;
                const char *sentence;
        } rows[] = {
                {CHAT_NOTE_REASONING,
                        "it takes the reasoning out of earlier replies; here they keep it"},
                {CHAT_NOTE_SYSTEM_MOVED,
                        "it moves the system text to the last message of the user; here the text "
                        "stays in front of the first"},
                {CHAT_NOTE_LAST_DIFFERS,
                        "it writes the last message otherwise than earlier ones; here a message "
                        "stays as it was when it was the last"},
                {CHAT_NOTE_OTHER_END,
                        "it ends earlier replies with another token than the last; here a reply "
                        "keeps its own"},
                {CHAT_NOTE_SYSTEM_REFUSED,
                        "it takes no system message; here the text stands in front of the first "
                        "message of the user, with an empty line between them"},
                {CHAT_NOTE_ALTERNATE,
                        "it refuses two messages of the user in a row; here the second is written "
                        "as behind a reply"},
                {CHAT_NOTE_TIME,
                        "it writes the time into later messages; there it is always 1 January "
                        "1970"},
                {CHAT_NOTE_TOOLS_MOVED,
                        "it moves the definitions of tools to the last message of the user; here "
                        "they stay with the message that they were told with"},
                {CHAT_NOTE_TOOLS_LATER,
                        "it writes later messages otherwise where tools are defined; here as "
                        "without"},
                {CHAT_NOTE_RESULTS_GROUPED,
                        "it writes the results of one reply together; here only those that are "
                        "given together"},
                {CHAT_NOTE_ONE_CALL,
                        "it takes one call in a message; here several results may stand behind a "
                        "reply, as behind one call"},
                {CHAT_NOTE_SHORT_IDS,
                        "it takes only ids of calls that have nine letters or digits; here other "
                        "ids are replaced by such"},
        };
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (notes & (unsigned)rows[i].note)
                        ret[n++] = rows[i].sentence;
        ret[n] = NULL;
}
