# SPDX-License-Identifier: Apache-2.0
# Description: the same with memory for less than half of the model: the limit is not hit, the kernel
# reclaims next to nothing, what was dropped is not missed.
# needs module: its bounds have not been met with the observer yet
. "$(dirname "$0")/scenario.sh"
# Most starts hit and reclaim nothing and read 100%.  Where readers overtake the loader, sooner on a busy
# machine, up to 15 hits, 2% reclaimed and 108% read were seen.
kept="max<=30 oom<=0 steal<=5"
once="disk<=115 refault<=5 $kept"

begin
if is_all; then
  know 2 --ranks 1,0
  know 2 --passes 2
fi
record svc-read 2 --mode read

# The plainest one, to compare the others with.
scenario limit-45 svc-w2 45 2 "$once wrong"
extra limit-40 svc-w2 40 2 "$once wrong"
extra limit-20-lockstep svc-w2 20 2 "$once"
extra limit-workers-4 svc-w4 45 4 "$once"
scenario limit-read svc-read 45 2 "$once" --mode read
extra limit-ranks-permuted svc-w2 45 2 "$once" --ranks 1,0
# What initialisation loaded in the recorded order makes room for the other one.
scenario limit-shuffled-shards svc-w2 45 2 "disk<=140 refault<=5 $kept" --shuffle 7
# The lists are the headers'.  One window read again is 8 per mille of a model this small.
scenario limit-other-tp svc-w4 45 2 "disk<=140 refault<=25 $kept wrong<=20"
extra limit-two-passes svc-w2 45 2 "$kept" --passes 2
BESIDE=own_prefetch scenario limit-own-prefetch svc-w2 45 2 "oom<=0"
verdict
