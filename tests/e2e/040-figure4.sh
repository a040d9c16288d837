# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: the program of the paper's Figure 4 registers, prefetches and evicts.
. "$(dirname "$0")/lib.sh"
figure4=$PPC_E2E_BUILD/tests/policy/libppc_figure4.so
[[ -e $figure4 ]] || fail "$figure4 is not built"
start_daemon
serve
# Eviction is asked for above the threshold; at 1% that is always.
register "$MNT" "$figure4" '{"runtime":{"threshold":0.01}}'
file=$(find "$MNT" -name '*.safetensors' | sort | head -n 1)
drop_caches
dd if="$file" of=/dev/null bs=1M count=24 status=none
loaded() { (($(status_field '["runner"]["events"]["prefetch_ranges"]') > 0)); }
evicted() { (($(status_field '["runner"]["evictor"]["dropped"]') > 0)); }
within 20 loaded || fail "nothing was prefetched: $(ppcctl status)"
within 20 evicted || fail "nothing was evicted: $(ppcctl status)"
le "$(resident_of "$file")" $((24 << 20)) "resident bytes"
eq "$(cmp "$file" "$MODEL/$(basename "$file")" && echo same)" same "content"
must ppcctl rm_policy "$MNT"
