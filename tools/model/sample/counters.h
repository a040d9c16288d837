// SPDX-License-Identifier: Apache-2.0
// What the kernel counts of a disk, a control group and the NUMA nodes, read from small text files.
// Threads: free functions without state.
#ifndef PPC_TOOLS_MODEL_SAMPLE_COUNTERS_H_
#define PPC_TOOLS_MODEL_SAMPLE_COUNTERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppc::bench {

struct DiskCounters {
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
};

// The text of /sys/class/block/DISK/stat; DISK may be a partition.
std::optional<DiskCounters> ParseDiskStat(std::string_view text);

// The number after `key` in lines "key number"; 0 when absent.
uint64_t FlatValue(std::string_view text, std::string_view key);

// Bytes of page cache on each node in the text of /sys/devices/system/node/nodeN/meminfo.
uint64_t NodeFileBytes(std::string_view meminfo);

// One sample as JSON members without braces, e.g. "\"cg\":{...}"; "" when the group is not there.
// A group is a directory of cgroup v2, or of the memory controller's v1.
std::string CgroupJson(const std::string& dir);
std::string NodesJson(const std::string& sysroot);
std::string DiskJson(const std::string& sysroot, const std::string& disk);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_SAMPLE_COUNTERS_H_
