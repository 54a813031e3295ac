#!/bin/sh
# SPDX-License-Identifier: MIT
# enter.sh ROOT FOLDER COMMAND...: the command in the root file system ROOT, with FOLDER as its /mnt and its home. To be
# run by unshare(1) with mounts and processes of its own: both are gone with the command. All of ROOT but /mnt and
# /tmp is read-only.
set -eu
root=$1 folder=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$folder" "$root/mnt"
exec chroot "$root" /usr/bin/env -C /mnt -i PATH=/usr/bin:/bin HOME=/mnt LANG=C.UTF-8 TERM=dumb PYTHONDONTWRITEBYTECODE=1 "$@"
