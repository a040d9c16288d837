#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: asynchronous and vectored readers of every kind get right bytes.
# Once
. "$(dirname "$0")/lib.sh"

command -v fio >/dev/null || skip "no fio"
# fio writes a file with a checksum in each block below, and verifies it here.
verified() {
  local out
  out=$(cd "$PPC_TEST_DIR" && fio --name=v --size=4M --bs=16k --verify=crc32c --verify_fatal=1 --thread "$@" 2>&1) ||
    fail "fio $*: $(grep -E 'bad|verify|error' <<<"$out" | head -3)"
}
verified --filename="$BASE/v" --rw=write --do_verify=0 --ioengine=psync --end_fsync=1
mount_ppc
for engine in psync pvsync2 mmap libaio io_uring; do
  for mode in '' 'attach managed beacon'; do
    drop_caches
    beside "$mode"
    verified --filename="$MNT/v" --rw=randread --readonly --ioengine=$engine --iodepth=8
    alone "$mode"
  done
done
# Direct, at depth: past the cache, then through it where the mount has it so.
for odirect in pass buffered; do
  must mount -o "remount,ro,odirect=$odirect" "$MNT"
  for engine in libaio io_uring; do
    verified --filename="$MNT/v" --rw=randread --readonly --direct=1 --ioengine=$engine --iodepth=32
  done
done
must mount -o remount,ro,odirect=auto "$MNT"
# What is absent is told, although io_uring asks for it without waiting first.
drop_caches
out=$(dev attach "sh cd $PPC_TEST_DIR && fio --name=v --size=4M --bs=16k --thread --filename=$MNT/v --rw=randread \
  --readonly --ioengine=io_uring --iodepth=8 >/dev/null" counts)
ge "$(field counts miss_read "$out")" 1 "misses of io_uring"
# Completions are not polled for through two files.
said=$(cd "$PPC_TEST_DIR" && fio --name=p --filename="$MNT/v" --size=4M --bs=16k --rw=read --readonly --direct=1 \
  --ioengine=io_uring --hipri 2>&1) && fail "io_uring polls"
has "$said" "Operation not supported" "IORING_SETUP_IOPOLL"
# A block that is wrong below is seen to be wrong here: the check is able to fail.
printf X | dd of="$BASE/v" bs=1 seek=100000 conv=notrunc status=none
(verified --filename="$MNT/v" --rw=randread --readonly --ioengine=io_uring --iodepth=8) >/dev/null &&
  fail "a wrong block was not noticed"
exit 0
