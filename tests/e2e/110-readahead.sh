# SPDX-License-Identifier: Apache-2.0
# Description: one sequential reader through the mount with the readahead policy gets at least 90%
# of what the kernel's own read-ahead gives, and the policy does the reading.
# needs module
. "$(dirname "$0")/lib.sh"
file=$(find "$MODEL" -name "*.safetensors" -printf "%s %p\n" | sort -n | tail -n 1 | cut -d" " -f2-)
# milliseconds FILE: to read it cold, in 128 KiB calls.
milliseconds() {
  local begin
  drop_caches
  begin=$(date +%s%N)
  dd if="$1" of=/dev/null bs=128k status=none || fail "cannot read $1"
  echo $((($(date +%s%N) - begin) / 1000000))
}
start_daemon
mount_ppc
best_native=999999 best_ours=999999
# The best of each counts; on a busy machine it takes more rounds to meet a quiet moment.
for round in {1..20}; do
  took=$(milliseconds "$file")
  ((took < best_native)) && best_native=$took
  register "$MNT" readahead
  took=$(milliseconds "$MNT/${file##*/}")
  ((took < best_ours)) && best_ours=$took
  loaded=$(runner_field '["loader"]["loaded"]')
  must ppcctl rm_policy "$MNT"
  ((round < 3 || best_ours * 90 > best_native * 100)) || break
done
echo "# native $best_native ms, readahead $best_ours ms"
le $((best_ours * 90)) $((best_native * 100)) "time against native at 90%"
ge "$loaded" $(($(stat -c %s "$file") / 2)) "bytes loaded ahead"
