#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""walks.py SOURCE [--cache FOLDER] [--suite SUITE] [--debs FOLDER]

The walks of an administrator and of somebody who writes scripts, with the packages of the tree in a bare Debian that has
booted, from installation to purge. Skipped, with the reason, where that cannot be done: it takes root, debootstrap and a
mirror of Debian. What it prints is TAP.

    --cache FOLDER   where the Debian is kept for the next time
    --suite SUITE    another Debian than bookworm, with a newer systemd
    --debs FOLDER    packages that are there already, of this tree
"""
# A review of 22 November 2026 walked these ways by hand. Each fault that it found on them is a step here:
#
#   H1  one user's long replies shut out everyone                            check_fairness
#   H2  stalls make conversations fail that fitted; pressure is over late    check_pressure, check_growth
#   H3  an upgrade replaces edited settings                                  check_upgrade
#   H4  edit and regenerate that are refused have lost turns                 STATUSES (and what `list` has at the end)
#   H5  say drops standard input beside a text                               OUTPUTS, "a text before standard input"
#   M1  an emptied register counts as a new one, spill files are deleted     check_register
#   M4  the limit of a cgroup of version 1 is not seen                       check_pressure (memory is short by that limit)
#   M5  a daemon that cannot start: clients hang, the unit restarts for ever check_broken
#   M8  evict says "cold" where spilling is refused                          check_quotas, disk-limit-per-user
#   M10 an empty standard input is sent, or replaces a message               STATUSES
#   M11 a reply that was cut is not told                                     OUTPUTS
#   M12 "retry" is wrong                                                     check_kill, check_upgrade
#   M14 settings are clamped                                                 check_settings
#   M17 figures of others are shown to everyone                              check_acts
#   R4  what is closed stays readable                                        check_closed
#   R6  a model in /home is not found, and no word of it                     check_broken
#   low ls --all names no owner; administrators cannot cancel, evict, close  check_acts
#   low mistakes of users are logged as errors                               check_journal
#   low usage errors give no JSON; standard output closed exits 0            STATUSES, OUTPUTS
#
# M19 (a reload with wrong settings) and the socket folder of a user's own daemon are steps of packages.py.
import contextlib
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import debs
import neighbour
import walk_administrator as administrator
import walk_scripter as scripter
from walk import USERS


class Walk:
    def __init__(self, box, first, later, memory, why_no_memory):
        self.box, self.first, self.later, self.memory, self.why_no_memory = box, first, later, memory, why_no_memory
        self.before = self.kept = None  # names of files without the packages; how conversations go on

    def install(self):
        self.before = debs.files(self.box)
        for name in USERS:
            self.box.add_user(name)
        if self.memory:
            self.memory.show(self.box)
        debs.install(self.box, self.first)

    def scripts(self):
        scripter.walk(self.box, 'carl')
        administrator.check_journal(self.box)

    def settle(self):
        self.kept = administrator.settle(self.box)
        administrator.check_settings(self.box)

    def press(self):
        administrator.check_pressure(self.box, self.memory, self.kept)

    def limit(self):
        administrator.check_quotas(self.box)

    def act(self):
        administrator.check_fairness(self.box)
        administrator.check_acts(self.box)
        administrator.check_closed(self.box)
        administrator.check_journal(self.box)

    def fail_to_start(self):
        administrator.check_broken(self.box)

    def grow(self):
        administrator.check_growth(self.box)

    def crash(self):
        administrator.check_watchdog(self.box, self.kept)
        administrator.check_kill(self.box, self.kept)

    def check(self):
        administrator.check_disk(self.box, self.kept)

    def restore(self):
        administrator.check_backup(self.box, self.kept)
        administrator.check_register(self.box)

    def upgrade(self):
        administrator.check_upgrade(self.box, self.later, self.kept)

    def leave(self):
        administrator.check_purge(self.box)
        debs.purge(self.box, self.before)

    def all(self):
        tap = debs.Tap()
        tap.step('the packages install', self.install)
        tap.step('a scripter', self.scripts)
        tap.step('three users, settings', self.settle)
        tap.step('a neighbour takes the memory', self.press, self.why_no_memory)
        tap.step('limits', self.limit)
        tap.step('one user has all places, acts of administrators', self.act)
        tap.step('daemons that cannot start', self.fail_to_start)
        tap.step('the budget grows back', self.grow, self.why_no_memory)
        tap.step('watchdog, kill', self.crash)
        tap.step('a check, damage', self.check)
        tap.step('backup, and another folder', self.restore)
        tap.step('upgrade', self.upgrade)
        tap.step('a user leaves, and then all of it', self.leave)
        tap.end()


def main():
    given = debs.arguments(__doc__, tap=True)
    why = neighbour.why_not()
    with contextlib.ExitStack() as stack:
        memory = None if why else stack.enter_context(neighbour.Memory())
        box, first, later = stack.enter_context(debs.machine(given, memory and memory.folder))
        Walk(box, first, later, memory, why).all()


main()
