#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: who holds a lease on a file below and does not let go of it keeps no loader and no unmount waiting.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 1M
make_file b 1M
mount_ppc
drop_caches
python3 - "$BASE/a" "$PPC_TEST_DIR/held" <<'PY' &
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open(sys.argv[2], "w").close()
time.sleep(600)
PY
within 20 test -e "$PPC_TEST_DIR/held" || fail "no lease"
out=$(dev 'lookup a' '!EAGAIN load 0 - wait' '!EAGAIN load 0 -' 'lookup b' 'load 0 - wait')
eq "$(field load loaded "$out")" $MIB "what is loaded of another file"
ge "$(stat_of refused_busy)" 2 "loads that are refused"
must umount "$MNT"
