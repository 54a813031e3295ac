/* SPDX-License-Identifier: MIT */
/* The table of events (logged.h). @CONFAB_...@ in a text stands for the value of a field, which the catalogue puts there. */
#include "service/logged.h"
#include <syslog.h>

#define EVENT(what) [LOGGED_##what]

const struct logged_info logged_table[] = {
        EVENT(READY) = {.name = "ready",
                .id = "308cfc25f93a4126b80e77593a0573ce",
                .level = LOG_INFO,
                .fields = "CONFAB_VERSION CONFAB_MODEL CONFAB_FINGERPRINT CONFAB_SOCKET "
                          "CONFAB_BYTES",
                .subject = "The service is ready",
                .text = "Clients can connect. @CONFAB_VERSION@ is the version of the "
                        "program. Of confabd there are also the model (@CONFAB_MODEL@ and "
                        "@CONFAB_FINGERPRINT@), and the budget of RAM for the memory of "
                        "conversations (@CONFAB_BYTES@)."},
        EVENT(STOPPING) = {.name = "stopping",
                .id = "1484826c98284bd68d7ded24a960aa20",
                .level = LOG_INFO,
                .fields = "CONFAB_COUNT",
                .subject = "The service is stopping",
                .text = "It was told to stop: no more connections are taken, what runs "
                        "is ended, and what is in RAM only is written. @CONFAB_COUNT@ is "
                        "the number of requests in flight.\n\nClients whose requests are "
                        "ended may send them again when the service is back. \"confab "
                        "admin drain\" before a stop lets replies come to their end."},
        EVENT(STOPPED) = {.name = "stopped",
                .id = "31bf3bad4f034a189e5fb8e12d2219de",
                .level = LOG_INFO,
                .fields = "",
                .subject = "The service has stopped",
                .text = "All that was acknowledged is in the register. The next client "
                        "of the socket starts the service again, unless the socket was "
                        "stopped, too."},
        EVENT(STOP_FORCED) = {.name = "stop-forced",
                .id = "b02f10e48df74a0c88cbea44245a3b0b",
                .level = LOG_WARNING,
                .fields = "",
                .subject = "The service gave up waiting for its work to end",
                .text = "It had to stop before its work had ended: stop-timeout was "
                        "over, or it was told to stop a second time. Nothing that was "
                        "acknowledged is lost. Memory of conversations that was not "
                        "written yet is computed again when they go on.\n\nIf this comes "
                        "at each stop, disks are too slow for what there is to write "
                        "within stop-timeout: raise it, with TimeoutStopSec= of the "
                        "unit, or drain before a stop."},
        EVENT(CANNOT_START) = {.name = "cannot-start",
                .id = "0c2e85947db246eb946d7e2a700d9114",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "The service cannot start",
                .text = "The message tells the reason. Clients are told it as well, and "
                        "the service manager does not try again by itself; the next "
                        "client does.\n\nMend the cause. \"confabd --check\" with the "
                        "flags of the unit looks at settings, model, folders and "
                        "permissions without changing anything."},
        EVENT(SETTINGS_WRONG) = {.name = "settings-wrong",
                .id = "553aa7358d0f4d3d90f981c63b95e787",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "The settings have a mistake",
                .text = "The message names the file, the line and the setting, or why a file "
                        "cannot be read. A service that was to start does not; one that was to "
                        "reload goes on with the settings that it had.\n\nMend the line, or let "
                        "the service's user read the file (\"chmod 644\"). "
                        "\"--check-settings\" with the flags of the unit looks whether the "
                        "settings can be taken. The next client, or \"systemctl start\", tries "
                        "again."},
        EVENT(RELOADED) = {.name = "reloaded",
                .id = "a5920bbaaa8047508f6dca38855bd7c4",
                .level = LOG_INFO,
                .fields = "CONFAB_COUNT CONFAB_SETTING",
                .subject = "The settings were read again",
                .text = "@CONFAB_COUNT@ settings have another value than before, and the "
                        "message names them. They hold from now on."},
        EVENT(RELOAD_REFUSED) = {.name = "reload-refused",
                .id = "0a9788a4c604426e90e1a7018b4c3a93",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "The settings have a mistake and were not taken",
                .text = "A reload found a mistake in the settings. The service goes on "
                        "with those that it had, all of them.\n\nMend the line that the "
                        "message names and reload again. Until then a restart would fail."},
        EVENT(NEEDS_RESTART) = {.name = "needs-restart",
                .id = "c3d018afe64446428c317f5e5929d026",
                .level = LOG_WARNING,
                .fields = "CONFAB_SETTING",
                .subject = "Settings that were changed take effect after a restart only",
                .text = "A reload found other values of settings that cannot change while "
                        "the service runs: @CONFAB_SETTING@. The values of before hold "
                        "until the next start.\n\n\"systemctl restart\" takes them. "
                        "\"confab admin settings\" shows which settings can be reloaded, "
                        "and which wait."},
        EVENT(LOOP_FAILED) = {.name = "loop-failed",
                .id = "72d5b8cdf1524fe59922195822402aa0",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "The service could not wait for events",
                .text = "The system refused what an event loop cannot be without. The "
                        "service ends, and its unit starts it again.\n\nThe message has "
                        "the system's reason. It is a fault of the machine or of the "
                        "program: please report it if it comes again."},
        EVENT(SHORT_OF_RESOURCES) = {.name = "short-of-resources",
                .id = "95d2429675134b15b287e09528079043",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR",
                .subject = "The service lacks memory or descriptors",
                .text = "Something small could not be had: memory for a timer, a "
                        "descriptor for a connection. The message says what is missing, "
                        "and what does not hold because of it. The service goes on."
                        "\n\nLook at the memory of the machine or of the service's "
                        "group, and at LimitNOFILE= of the unit beside max-connections."},
        EVENT(LEFT_OUT) = {.name = "left-out",
                .id = "bd5bd58ae66949029d16ec0c2231317f",
                .level = LOG_NOTICE,
                .fields = "CONFAB_UID CONFAB_COUNT",
                .subject = "Messages about a user's clients were left out",
                .text = "A user's clients brought about so many messages that "
                        "@CONFAB_COUNT@ were left out in ten seconds. Those that were "
                        "written before tell of what kind they are. Messages about "
                        "others are not affected.\n\nAsk the user what is running, or "
                        "limit it: \"confab admin quota\"."},
        EVENT(JOURNAL_SLOW) = {.name = "journal-slow",
                .id = "f40e814d1ede4878a43bc4eb0383c517",
                .level = LOG_WARNING,
                .fields = "CONFAB_COUNT",
                .subject = "The journal was too slow for all lines",
                .text = "The journal did not take lines as fast as they came, and the "
                        "service waits for nobody. @CONFAB_COUNT@ lines are missing."
                        "\n\nLook whether the disk of the journal is slow or full. With "
                        "request-log = on there is a line for each request."},
        EVENT(READS_WEIGHTS) = {.name = "reads-weights",
                .id = "67279ad507ee4a5ea92b1b010ad107fa",
                .level = LOG_INFO,
                .fields = "CONFAB_MODEL CONFAB_BYTES",
                .subject = "The whole model file is being read",
                .text = "The model has a file that the service has not seen yet, or that "
                        "was changed: its fingerprint, which says whose memory is still "
                        "of use, is a hash of all @CONFAB_BYTES@ bytes. This start takes "
                        "as long as reading them; the next one does not."},
        EVENT(WEIGHTS_EXCEED_RAM) = {.name = "weights-exceed-ram",
                .id = "3038d9b47031420fa726bb2f487a3d47",
                .level = LOG_WARNING,
                .fields = "CONFAB_MODEL CONFAB_BYTES",
                .subject = "The model is larger than the RAM that may be used",
                .text = "The weights have @CONFAB_BYTES@ bytes, more than the machine or "
                        "the service's group has. They are read from disk again for each "
                        "token, and everything is slow.\n\nChoose a smaller model or a "
                        "smaller quantisation of it, or give the service more memory "
                        "(MemoryMax= of the unit)."},
        EVENT(MIGRATED) = {.name = "migrated",
                .id = "45c9a7bb491843f3b003b1a05a1dddea",
                .level = LOG_NOTICE,
                .fields = "",
                .subject = "The register was brought up to date",
                .text = "The register was one of an older version of confab, and has the "
                        "present form now; the message has both versions. Older versions of "
                        "confab cannot open it any more.\n\nGoing back to an older version "
                        "takes a backup from before."},
        EVENT(REGISTER_TROUBLE) = {.name = "housekeeping-failed",
                .id = "11a3d509d1d84255908e2fc794187ce3",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "A piece of housekeeping on the disk failed",
                .text = "Something that keeps the state folder tidy, or that links memory on "
                        "disk to its conversation, did not work. No conversation is lost by it: "
                        "what is not linked is computed again, and what is not tidied is tried "
                        "again.\n\nLook at the space and the health of the disk with the state "
                        "folder, and whether another program has the register open. "
                        "\"confab-model fsck\" looks at the register of a stopped service."},
        EVENT(REGISTER_LOG_LOST) = {.name = "register-log-lost",
                .id = "eee5849c01994285bd6dc82295e5da8d",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "Another program removed a file of the register",
                .text = "The file register.db-wal was removed while the service runs. "
                        "Nothing is lost, since the service goes on without it, but "
                        "saving is slower.\n\nRestart the service, and find what removes "
                        "files in the state folder: nothing but confab may."},
        EVENT(TURN_DAMAGED) = {.name = "turn-damaged",
                .id = "03015bad81b84c368a1e5d6e0cc21284",
                .level = LOG_ERR,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "A conversation in the register is damaged",
                .text = "Tokens of a turn are not those that were written: a disk, "
                        "memory, or another program changed them. The conversation can "
                        "be read, forked and rewound up to that turn and answers with "
                        "\"corrupt\" behind it. Others are not affected.\n\n\"confab admin "
                        "check\" looks at everything else. A restored backup brings the "
                        "turn back. Look at the health of the disk."},
        EVENT(REGISTER_DAMAGED) = {.name = "register-damaged",
                .id = "e986d6a747054526900c9a5d5fdb8570",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR CONFAB_CONVERSATION",
                .subject = "A check found damage in the register",
                .text = "\"confab admin check\" found something in register.db that cannot "
                        "be so: a disk, memory, or another program changed it. The "
                        "message says what, and of which conversation. Nothing was "
                        "changed because of it.\n\nTake a backup, stop the service and "
                        "let \"confab-model fsck\" look at everything. A backup of before "
                        "brings back what is damaged. Look at the health of the disk."},
        EVENT(ENGINE_STUCK) = {.name = "engine-stuck",
                .id = "67875827c60e4d16bf399a54945e4e04",
                .level = LOG_ERR,
                .fields = "CONFAB_USEC",
                .subject = "The engine gives no sign of life",
                .text = "The thread that computes has neither finished a step nor "
                        "answered for @CONFAB_USEC@ microseconds. If that goes on, the "
                        "service manager ends the service and starts it again "
                        "(WatchdogSec=). What was acknowledged is not lost.\n\nA machine "
                        "that swaps heavily or was suspended may be the cause. Please "
                        "report it if not."},
        EVENT(RECORDS_UNUSABLE) = {.name = "records-unusable",
                .id = "175129d7c0a64184a2a2a98efeef4a4c",
                .level = LOG_WARNING,
                .fields = "CONFAB_ERROR",
                .subject = "Memory on disk is missing or cannot be used",
                .text = "At the start, spill files did not have what the register says. "
                        "No conversation is lost: what they remember is computed again "
                        "when they go on, which takes time once.\n\nIt is expected if "
                        "files in the folder \"spill\" were removed, or come from "
                        "another moment than the register. Else look at the health of "
                        "the disk."},
        EVENT(RECORD_DAMAGED) = {.name = "record-damaged",
                .id = "fb66a690048a4b19a1f7df8ee2a61050",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "Memory on disk was damaged and is computed anew",
                .text = "A record in a spill file could not be read, or is not what was "
                        "written. It was forgotten, and the conversations that used it "
                        "compute that part again. Nothing that was said is lost, and no "
                        "reply differs.\n\nIf it comes again, look at the health of the "
                        "disk."},
        EVENT(SPILL_FAILS) = {.name = "spill-fails",
                .id = "5d638733e24d434aa3652fad93ea8ef6",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "Memory cannot be written to disk",
                .text = "A limit of the disk is reached (disk-limit, disk-floor, "
                        "disk-writes-per-day), or writing failed; the message says "
                        "which. Until it works again, conversations that leave RAM are "
                        "computed again when they go on. Nothing that was said is lost."
                        "\n\nMake room, raise the limit, or let users close "
                        "conversations. A line tells when it works again."},
        EVENT(SPILL_WORKS) = {.name = "spill-works",
                .id = "49d25c3a60aa4a31bcd752337724d826",
                .level = LOG_INFO,
                .fields = "",
                .subject = "Memory can be written to disk again",
                .text = "Writing to the spill files works again, after it had failed or "
                        "a limit of the disk had been reached."},
        EVENT(REMOTE_FAILS) = {.name = "remote-fails",
                .id = "3c0c7e729b534deeb6f7c0e60c5ab75f",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR",
                .subject = "The remote store of memory cannot be used",
                .text = "The server that remote names cannot be reached, does not answer within "
                        "remote-timeout, refuses the service, or is full; the message says which. "
                        "Nothing that was said is lost, and nobody waits for it: conversations "
                        "that come from another machine compute their memory. The server is tried "
                        "again, after half a minute at most while somebody wants it."
                        "\n\nLook at the server, at the network, and at the settings that begin "
                        "with remote. One that is full needs \"maxmemory-policy allkeys-lru\", or "
                        "more memory. A line tells when it works again."},
        EVENT(REMOTE_WORKS) = {.name = "remote-works",
                .id = "be427ff14d514bc2948828e8c387f21f",
                .level = LOG_INFO,
                .fields = "",
                .subject = "The remote store of memory can be used again",
                .text = "The server that remote names works again, after it had failed. What was "
                        "not sent meanwhile is sent now."},
        EVENT(IMPORT_COLD) = {.name = "import-cold",
                .id = "c4561137bc6d42ad8f71391f3853ab89",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "The memory of an imported conversation was not taken",
                .text = "The file of an import had memory that is damaged, or there was "
                        "no room for it. The conversation was imported, and computes its "
                        "memory when it goes on."},
        EVENT(WAITS_FOR_MEMORY) = {.name = "waits-for-memory",
                .id = "ba39b426477b4d5ebd6f1444fd166f7a",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_TENANT CONFAB_CONVERSATION",
                .subject = "A request waits because memory is short",
                .text = "A conversation needs more memory than the system can give at "
                        "the moment, though it fits the budget. Its request waits until "
                        "there is some.\n\nGive the service more memory, set pool-size "
                        "to what is really free, or see what else takes it."},
        EVENT(MEMORY_SHORT) = {.name = "memory-short",
                .id = "729baee1fedf437db8476742bab7644e",
                .level = LOG_NOTICE,
                .fields = "CONFAB_BYTES",
                .subject = "Memory is short: idle memory is given back",
                .text = "The system or the service's group is short of memory, so what "
                        "idle conversations remember is written to disk and given back, "
                        "step by step. @CONFAB_BYTES@ is the budget that is left. Requests "
                        "are not refused because of it; conversations that were evicted "
                        "take a moment longer to go on."},
        EVENT(MEMORY_CALM) = {.name = "memory-calm",
                .id = "a13bccb9c7f94c32924b378f490db4a1",
                .level = LOG_INFO,
                .fields = "CONFAB_BYTES",
                .subject = "Memory is no longer short",
                .text = "There was no pressure for a while, so the budget grows again. "
                        "@CONFAB_BYTES@ is what it is now."},
        EVENT(BUDGET_CHANGED) = {.name = "budget-changed",
                .id = "2a818213b0374d35b6b2b281d027afb2",
                .level = LOG_INFO,
                .fields = "CONFAB_BYTES",
                .subject = "The budget of RAM has changed",
                .text = "With pool-size = auto the budget follows what the machine or "
                        "the service's group has. @CONFAB_BYTES@ is what it is now."},
        EVENT(PRESSURE_UNWATCHED) = {.name = "pressure-unwatched",
                .id = "74b6c0b8a0c2466297104a156567d10c",
                .level = LOG_WARNING,
                .fields = "CONFAB_ERROR",
                .subject = "Memory pressure is not watched as it should be",
                .text = "A file that tells of memory pressure cannot be used or has "
                        "gone, so the service may notice late that memory is short."
                        "\n\nIt is normal in some containers. Set pool-size to a fixed "
                        "size there."},
        EVENT(ADMIN_ACT) = {.name = "admin-act",
                .id = "2ea40f9070ee47b486668804ed60e420",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION",
                .subject = "An administrator acted",
                .text = "@CONFAB_UID@ is the administrator, @CONFAB_ACT@ what was done and "
                        "on whom, @CONFAB_RESULT@ how it ended. Administrators are root "
                        "and the members of the group admin-group."},
        EVENT(LIMIT_CHANGED) = {.name = "limit-changed",
                .id = "dd0ccc93ff3c418f93544f976b039008",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION",
                .subject = "An administrator changed a limit",
                .text = "@CONFAB_UID@ is the administrator. The message has the limit, "
                        "whose it is, and the override before and after; \"no override\" "
                        "means that the settings hold.\n\n\"confab admin quota\" shows "
                        "what holds for whom, and why."},
        EVENT(DRAINED) = {.name = "drained",
                .id = "fdaed1ab18a14c1aa90f8289307c6425",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION",
                .subject = "The service takes no new work",
                .text = "An administrator has drained the service, for a stop or an "
                        "upgrade: what ran has ended, all memory is on disk, and new "
                        "work is refused until the next start.\n\n\"confab admin drain "
                        "--off\" takes work again."},
        EVENT(DRAIN_ENDED) = {.name = "drain-ended",
                .id = "d9bcf3d58329446789c5f6d53e02baf0",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION",
                .subject = "The service takes work again",
                .text = "An administrator has ended the drain: new work is taken as it was "
                        "before."},
        EVENT(BACKUP_MADE) = {.name = "backup-made",
                .id = "cb419908e2f3437e9a6d65289b87a00f",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION CONFAB_BYTES",
                .subject = "A backup was made",
                .text = "An administrator took a copy of all conversations of all users, "
                        "as of one moment. It has @CONFAB_BYTES@ bytes, and the text of "
                        "everything that was said: whoever has it can read it."},
        EVENT(CHECKED) = {.name = "checked",
                .id = "a5ac8881a4024646b82a534ea53924d3",
                .level = LOG_NOTICE,
                .fields = "CONFAB_ACT CONFAB_RESULT CONFAB_UID CONFAB_PID "
                          "CONFAB_CONVERSATION",
                .subject = "All that is on disk was checked",
                .text = "An administrator had the register and each record of memory read "
                        "while the service ran. @CONFAB_RESULT@ counts what was found; "
                        "each problem has a line of its own above. Records that were "
                        "damaged are forgotten, and what they had is computed again."},
        EVENT(REQUEST_FAILED) = {.name = "request-failed",
                .id = "3615afc0cc3a4373b832770fb6e093b0",
                .level = LOG_ERR,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID CONFAB_CONVERSATION",
                .subject = "A request failed, and not by its own fault",
                .text = "The system refused something, memory ran out, or data in the "
                        "state folder is damaged; the message says what. The client was "
                        "told so. Nothing that was acknowledged is lost.\n\nLook at the "
                        "space and the health of the disk with the state folder, and at "
                        "the memory of the machine."},
        EVENT(LIMIT_REACHED) = {.name = "limit-reached",
                .id = "16848040604240aca48c1e3dc73be947",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID CONFAB_CONVERSATION",
                .subject = "A user has reached a limit",
                .text = "A request was refused because of a limit: the user's own, or "
                        "one of all users together. The message names it and what is in "
                        "use. It is told once in ten minutes for each user.\n\nNothing "
                        "has to be done. \"confab admin quota\" changes a user's limits."},
        EVENT(CONNECTION_REFUSED) = {.name = "connection-refused",
                .id = "f885b21dce424c10be202523d0f4b77f",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID",
                .subject = "A connection was refused",
                .text = "The user has as many connections as allowed, there are as many "
                        "as can be, or the service cannot start: the message tells "
                        "which. The client was told it."},
        EVENT(HELLO_REFUSED) = {.name = "hello-refused",
                .id = "23257e79e51747cfae70b224527450e2",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID",
                .subject = "A client's greeting was refused",
                .text = "The client speaks another version of the protocol, or wants to "
                        "act for somebody for whom it may not (trusted-users). The "
                        "client was told the reason."},
        EVENT(PROTOCOL_ERROR) = {.name = "protocol-error",
                .id = "ac7a0f1dc9ce4d2db5630ab121e52833",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID",
                .subject = "A client broke the protocol",
                .text = "A client sent what is no message of the protocol, or sent it at "
                        "the wrong time. Its connection was ended; others are not "
                        "affected.\n\nIt is a fault of the client's program. Its user "
                        "(@CONFAB_UID@) and process (@CONFAB_PID@) are those of the message."},
        EVENT(CONNECTION_LOST) = {.name = "connection-lost",
                .id = "8bbdeb75941142f7bb79cf02dc5fce40",
                .level = LOG_INFO,
                .of_client = true,
                .limited = true,
                .fields = "CONFAB_ERROR CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT "
                          "CONFAB_PID",
                .subject = "A client's connection was cut",
                .text = "The daemon ended a connection: its client did not read what it "
                        "had asked for, or sent half a message and no more."},
        EVENT(REQUEST) = {.name = "request",
                .id = "43d2e6416df348fe9ddadaebe4fa48ae",
                .level = LOG_INFO,
                .of_client = true,
                .fields = "CONFAB_UID CONFAB_ACTOR_UID CONFAB_TENANT CONFAB_PID "
                          "CONFAB_VERB CONFAB_CONVERSATION CONFAB_RESULT CONFAB_FINISH "
                          "CONFAB_USEC CONFAB_QUEUED_USEC CONFAB_RESTORE_USEC "
                          "CONFAB_PREFILL_USEC CONFAB_DECODE_USEC CONFAB_PROMPT_TOKENS "
                          "CONFAB_RAM_TOKENS CONFAB_DISK_TOKENS CONFAB_SHARED_TOKENS "
                          "CONFAB_COMPUTED_TOKENS CONFAB_GENERATED_TOKENS "
                          "CONFAB_BYTES_IN CONFAB_BYTES_OUT",
                .subject = "A request has ended",
                .text = "With request-log = on there is such a line for each request: "
                        "the verb, whose it was, the conversation, how it ended "
                        "(CONFAB_RESULT: \"ok\", the code of an error, or "
                        "\"disconnected\"), and what it took. Nothing of what was said "
                        "is in it."},
        EVENT(LISTENING) = {.name = "listening",
                .id = "d23e8e3e8bef4fa9b1d70f6004d1c1bc",
                .level = LOG_INFO,
                .fields = "CONFAB_SOCKET",
                .subject = "The gateway listens on a port",
                .text = "Programs reach the gateway at @CONFAB_SOCKET@ by TCP, with a "
                        "token."},
        EVENT(DAEMON_LOST) = {.name = "daemon-lost",
                .id = "6f6c3b5bf361403ea798d293a20f1741",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_SOCKET",
                .subject = "The gateway does not reach a confabd",
                .text = "Nobody answers at the socket @CONFAB_SOCKET@, so requests for the "
                        "model behind it are answered with 503. Each request tries again."
                        "\n\nLook at \"systemctl status\" of that confabd and at its "
                        "journal."},
        EVENT(DAEMON_BACK) = {.name = "daemon-back",
                .id = "a92a752b867d42bdac816e18130b70e4",
                .level = LOG_INFO,
                .limited = true,
                .fields = "CONFAB_SOCKET CONFAB_MODEL",
                .subject = "The gateway reaches a confabd",
                .text = "The confabd at the socket @CONFAB_SOCKET@ answers, with the model "
                        "@CONFAB_MODEL@. It is told at the first contact, and when the "
                        "daemon is back."},
        EVENT(TOKENS_REFUSED) = {.name = "tokens-refused",
                .id = "324d2e52e6ac4105bb3e7bbb787e1157",
                .level = LOG_ERR,
                .fields = "CONFAB_ERROR",
                .subject = "The file of tokens cannot be used",
                .text = "A reload found a mistake in token-file, or may not read it. The "
                        "tokens of before still hold, so those that were taken out of "
                        "the file are still good.\n\nMend what the message names and "
                        "reload again."},
        EVENT(NOT_FOLLOWED) = {.name = "not-followed",
                .id = "65f1e1c7c13c50c1ebdebf536f126f1d",
                .level = LOG_WARNING,
                .limited = true,
                .fields = "CONFAB_ERROR",
                .subject = "A request could not be sent on to another machine",
                .text = "A conversation is in use on another machine, which told its address, and "
                        "the "
                        "gateway there could not be reached, or its certificate is not "
                        "trusted; the message says which. The client was told that the "
                        "conversation is "
                        "in use elsewhere (409, moved).\n\nLook at the setting address of the "
                        "confabd there, at "
                        "the gateway there, and at follow-ca-file here."},
        EVENT(NO_PAGE) = {.name = "no-page",
                .id = "e983f48afaf74bd2a850b6237341abd8",
                .level = LOG_INFO,
                .fields = "",
                .subject = "The gateway has no page for browsers",
                .text = "The files of the page were not installed with the gateway, so a "
                        "browser gets nothing at /. Programs are not affected."},
        EVENT(NO_BROWSER) = {.name = "no-browser",
                .id = "4e5d64accaf74aafb8b21d54cf4764ad",
                .level = LOG_INFO,
                .fields = "CONFAB_ERROR",
                .subject = "No browser was started",
                .text = "The gateway was to show its page (--open) and could not start a "
                        "browser. The address was printed: open it by hand."},
        EVENT(HTTP_REQUEST) = {.name = "http-request",
                .id = "621611c2bad64e7a99908cdda345898d",
                .level = LOG_INFO,
                .of_client = true,
                .fields = "CONFAB_METHOD CONFAB_PATH CONFAB_STATUS CONFAB_RESULT "
                          "CONFAB_UID CONFAB_TENANT CONFAB_USEC CONFAB_FIRST_USEC "
                          "CONFAB_BYTES_IN CONFAB_BYTES_OUT",
                .subject = "An HTTP request has ended",
                .text = "With request-log = on in the gateway's settings there is such a "
                        "line for each request: method, path (the query is left out), "
                        "status, whose it was and what it took. CONFAB_RESULT is \"ok\", "
                        "or \"aborted\" if the answer did not come to its end. Nothing "
                        "of what was said is in it."},
};

_Static_assert(sizeof(logged_table) / sizeof(logged_table[0]) == N_LOGGED, "a row for each event");
