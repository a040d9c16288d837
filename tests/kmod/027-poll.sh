#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a sleeper that announced itself is woken, once; one that did not is left alone.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
drop_caches
out=$(dev attach "open $MNT/a" 'poll 50' 'thread poll 5000 sleepy' 'sleep 300' 'read 0 4K 4K' join info \
  'read 2M 4K 4K' 'poll 0' counts info)
eq "$(field poll ready "$out" 1)" 0 "nothing to read"
eq "$(field poll in "$out" 2)" 1 "woken"
eq "$(field info wakeups "$out" 1)" 1 "wake-ups"
eq "$(field poll in "$out" 3)" 1 "unread events"
eq "$(field info wakeups "$out" 2)" 1 "wake-ups without a sleeper"
# Events that came before the announcement end the sleep at once.
drop_caches
out=$(dev attach "open $MNT/a" 'read 0 4K 4K' 'poll 5000 sleepy')
eq "$(field poll in "$out")" 1 "no lost wake-up"
