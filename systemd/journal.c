/* SPDX-License-Identifier: MIT */
/*
 * journal catalog: the table of events as a catalogue for journalctl(1) -x, in the form that
 * https://systemd.io/CATALOG has.
 * journal page: the same as confab-journal(7).
 *
 * Runs while confab is built; its output is installed.
 */
#include "service/logged.h"
#include <stdio.h>
#include <string.h>

#define WIDTH 76

static const char *const levels[] = {
        "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"};

/* ---- the catalogue ---- */

/* Paragraphs of lines that are at most WIDTH wide. */
static void put_wrapped(const char *text) {
        size_t at = 0;

        while (*text) {
                size_t n = strcspn(text, " \n");

                if (at > 0 && at + 1 + n > WIDTH) {
                        putchar('\n');
                        at = 0;
                }
                if (at > 0)
                        at += (size_t)printf(" ");
                at += (size_t)printf("%.*s", (int)n, text);
                text += n;
                if (*text == '\n') {
                        printf("\n\n");
                        at = 0;
                }
                text += strspn(text, " \n");
        }
        putchar('\n');
}

static void put_catalog(void) {
        printf("# Explanations of confab's messages: journalctl -x\n");
        for (size_t i = 0; i < N_LOGGED; i++) {
                const struct logged_info *info = &logged_table[i];

                printf("\n-- %s\nSubject: %s\nDefined-By: confab\n"
                       "Documentation: man:confab-journal(7)\n\n",
                        info->id, info->subject);
                put_wrapped(info->text);
        }
}

/* ---- the page ---- */

/* Fields without the signs that stand for their values; hyphens as they are typed. */
static void put_roff(const char *text) {
        for (bool begins = true; *text; text++) {
                if (begins && (*text == '.' || *text == '\''))
                        printf("\\&");
                begins = false;
                if (*text == '@')
                        continue;
                if (*text == '\n') {
                        printf("\n.IP\n");
                        text += strspn(text, "\n") - 1;
                        begins = true;
                } else if (*text == '-') {
                        printf("\\-");
                } else if (*text == '\\') {
                        printf("\\e");
                } else {
                        putchar(*text);
                }
        }
        putchar('\n');
}

static void put_event(const struct logged_info *info) {
        printf(".TP\n.BR ");
        for (const char *c = info->name; *c; c++)
                printf(*c == '-' ? "\\-" : "%c", *c);
        printf(" \" (%s)\"\n", levels[info->level & 7]);
        put_roff(info->subject);
        printf(".IP\n");
        put_roff(info->text);
        printf(".IP\nMESSAGE_ID=%s%s", info->id, *info->fields ? "; fields: " : "");
        for (const char *c = info->fields; *c; c++)
                printf(*c == ' ' ? ", " : "%c", *c);
        printf(".\n");
}

static const char page_head[] =
        ".\\\" SPDX-License-Identifier: MIT\n"
        ".TH CONFAB\\-JOURNAL 7 \"\" \"confab\"\n"
        ".SH NAME\n"
        "confab\\-journal \\- what confab tells the journal\n"
        ".SH DESCRIPTION\n"
        ".BR confabd (8)\nand\n.BR confab\\-gateway (8)\n"
        "tell the journal of what matters to an administrator, or standard error if they were not "
        "started by a service "
        "manager.\n"
        "Each line is one of the events below. It has the fields\n"
        ".BR MESSAGE_ID ,\n.B PRIORITY\nand\n.BR SYSLOG_IDENTIFIER ,\n"
        "and those of its event that apply.\n"
        ".B \"journalctl \\-x \\-u confabd\"\n"
        "shows the explanations of this page beside the lines;\n"
        ".B \"journalctl MESSAGE_ID=...\"\n"
        "finds the lines of one event, and\n"
        ".B \"journalctl CONFAB_UID=1000\"\n"
        "what is about one user.\n"
        "Of a program that ends at once, such as one with a mistake in its settings, the journal "
        "may not learn the unit any more: "
        "look with\n.BR \"journalctl \\-x \\-t confabd\" .\n"
        ".SS Fields\n"
        ".TP\n.B CONFAB_UID\nThe user whom the line is about: who connected, or for whom a trusted "
        "user acts. Of an "
        "administrator\\(aqs act, the administrator.\n"
        ".TP\n.B CONFAB_ACTOR_UID\nThe user that acts for that one (trusted\\-users), as the "
        "gateway does.\n"
        ".TP\n.B CONFAB_TENANT\nThe label of the user\\(aqs tenant, where it is one.\n"
        ".TP\n.B CONFAB_PID\nThe process that connected.\n"
        ".TP\n.B CONFAB_CONVERSATION\nThe number of the conversation.\n"
        ".TP\n.BR CONFAB_ERROR \", \" CODE_FILE \", \" CODE_LINE\n"
        "The code of the error, as clients see it, and where in the source it was found.\n"
        ".TP\n.BR CONFAB_..._USEC \", \" CONFAB_..._BYTES \", \" CONFAB_..._TOKENS\n"
        "Times in microseconds, bytes, tokens.\n"
        ".SS What is never there\n"
        "What is said in conversations, in any form, at any level; tokens of the gateway; names, "
        "titles and tags of "
        "conversations, which are their owners\\(aq. Conversations have numbers here. Labels of "
        "tenants are there, since limits "
        "name tenants by them.\n"
        ".SS Levels\n"
        "An\n.B error\nis what the administrator has to do something about; at a\n.B warning\nhe "
        "may want to. A\n.B notice\n"
        "is something that others feel, or that an administrator did. All else is\n.BR info ,\n"
        "what clients do wrong, too. The setting\n.B log\\-level\nsays what is written.\n"
        ".SS Limits\n"
        "Of events that clients can bring about at most 20 in ten seconds are written for each "
        "user or "
        "tenant, and 1000 for all. What was left out is counted and told when the ten seconds are "
        "over, for each user.\n"
        "Nobody waits for the journal: where it does not take lines, up to 1 MiB of them waits in "
        "memory, and what is beyond is "
        "dropped and counted.\n"
        ".SH EVENTS\n";

static const char page_tail[] =
        ".SH SEE ALSO\n"
        ".BR confabd (8),\n.BR confabd.conf (5),\n.BR confab\\-gateway (8),\n.BR journalctl (1)\n";

static void put_page(void) {
        fputs(page_head, stdout);
        for (size_t i = 0; i < N_LOGGED; i++)
                put_event(&logged_table[i]);
        fputs(page_tail, stdout);
}

int main(int argc, char **argv) {
        bool page = argc == 2 && strcmp(argv[1], "page") == 0;

        if (!page && (argc != 2 || strcmp(argv[1], "catalog") != 0)) {
                fputs("usage: journal catalog|page\n", stderr);
                return 2;
        }
        if (page)
                put_page();
        else
                put_catalog();
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
