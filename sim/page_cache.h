// SPDX-License-Identifier: Apache-2.0
// Owns the modelled page cache: which pages are present, on which node, mapped by which processes;
// the memory limit of the service's control group; and the kernel's reclaim (two lists, second
// chance, refault activation) when that limit or the machine is full.
//
// A page is charged to the process that brings it in: below the control group with the limit is one
// group for each service, one for the runner and one for all other processes.
// Threads: one.
#ifndef PPC_SIM_PAGE_CACHE_H_
#define PPC_SIM_PAGE_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace ppc::sim {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint32_t kNone = ~0u;
inline constexpr uint32_t kMaxProcesses = 32;  // that map something

// The payer of a page.
using PayerId = uint8_t;
inline constexpr PayerId kRunnerPays = 0;
inline constexpr PayerId kOthersPay = 1;
inline constexpr PayerId kServicePays = 2;  // the first service, further ones follow
inline constexpr size_t kPayers = 32;

struct MemoryOptions {
  uint64_t limit_bytes = 0;  // of the control group; 0: none
  uint64_t other_bytes = 0;  // charged to it besides page cache
  uint32_t nodes = 2;
  uint64_t node_bytes = uint64_t{64} << 30;  // for page cache, each
};

enum class PageState : uint8_t { kAbsent, kReading, kUptodate };

struct Page {
  uint32_t prev = kNone;  // list neighbours; prev of an absent page is its eviction number
  uint32_t next = kNone;
  uint32_t io = 0;        // request number while being read
  uint32_t mapped = 0;    // bit per process
  uint32_t accessed = 0;  // part of `mapped` that touched it since reclaim last looked
  PageState state = PageState::kAbsent;
  uint8_t list = 0;  // 0 none, 1 inactive, 2 active
  int8_t node = 0;
  bool referenced : 1 = false;
  bool readahead : 1 = false;    // PG_readahead
  bool ever_read : 1 = false;    // came from the disk before
  bool wanted : 1 = false;       // touched by some process, ever
  bool released : 1 = false;     // dropped by the policy, not read since
  bool by_loader : 1 = false;    // the runtime's loader brought it in
  bool shadow : 1 = false;       // evicted by reclaim: prev is its eviction number
  bool read_unused : 1 = false;  // read and not touched since
  bool failed : 1 = false;       // the last request that held it failed
};

struct CacheFile {
  uint64_t number = 0;
  std::string path;
  uint64_t bytes = 0;
  int64_t mtime_ns = 1;
  std::string head;    // first bytes; the rest reads as zeros
  uint32_t first = 0;  // index of its first page
  uint32_t pages = 0;
  uint32_t mount = 0;  // of several
  bool is_native = false;
  bool is_gone = false;
};

// Bytes unless said otherwise.
struct CacheStats {
  uint64_t read = 0;            // from the disk
  uint64_t reread = 0;          // of that, pages that had been read before
  uint64_t refaulted = 0;       // of that, dropped by the policy, then missed by a process
  uint64_t reclaimed = 0;       // dropped by the kernel
  uint64_t evicted = 0;         // dropped by the policy
  uint64_t dropped_unused = 0;  // read, and dropped before a reader touched it
  uint64_t spilled = 0;         // not on the requested node
  uint64_t exclusive = 0;       // loaded by the runtime for a single worker
  uint64_t misplaced = 0;       // of that, not on the worker's node
  uint64_t used_alone = 0;      // touched by the single worker that needs it
  uint64_t used_afar = 0;       // of that, not on the worker's node
  uint64_t limit_hits = 0;      // count: memory.events max
  uint64_t peak = 0;            // of page cache
  std::array<uint64_t, kPayers> charged{};  // of `read`, by payer
};

class PageCache {
 public:
  explicit PageCache(const MemoryOptions& options);

  CacheFile* AddFile(const std::string& path, uint64_t bytes, std::string head);
  CacheFile* Find(uint64_t number);
  CacheFile* FindPath(const std::string& path);
  std::deque<CacheFile>& files() { return files_; }

  Page& page(uint32_t index) { return pages_[index]; }
  // Allocates a page to read into.
  void Add(uint32_t index, int node, bool by_loader, uint32_t io, PayerId payer = kOthersPay);
  void ReadDone(uint32_t index);
  // The disk could not read the page: it is absent again.
  void ReadFailed(uint32_t index);
  // Drops all clean pages that no process maps, as /proc/sys/vm/drop_caches does.
  void DropUnmapped();
  // False: absent, being read, or mapped and `unmap` is false.
  bool Drop(uint32_t index, bool unmap);
  // mark_page_accessed().
  void MarkAccessed(uint32_t index);
  void Touch(uint32_t index, uint32_t process);
  void Map(uint32_t index, uint32_t process) { pages_[index].mapped |= 1u << process; }
  // munmap() of a range.
  void Unmap(uint32_t first, uint32_t pages, uint32_t process);
  void DropEverything();  // between runs
  void ForgetHistory();
  // By page: node of the single worker that needs it, -1 if there is none.
  void SetPageNodes(std::vector<int8_t> nodes) { page_nodes_ = std::move(nodes); }

  uint64_t resident_bytes() const { return resident_ * kPage; }
  uint64_t used_bytes() const { return resident_bytes() + options_.other_bytes; }
  uint64_t node_bytes(int node) const { return node_pages_[static_cast<size_t>(node)] * kPage; }
  const MemoryOptions& options() const { return options_; }
  // Processes allocate memory batch by batch; at the limit the kernel reclaims page cache.
  void SetOther(uint64_t bytes);
  CacheStats& stats() { return stats_; }

 private:
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
    uint64_t size = 0;
  };
  List& ListOf(uint8_t number) { return number == 1 ? inactive_ : active_; }
  void PushHead(uint32_t index, uint8_t list);
  void Remove(uint32_t index);
  void Activate(uint32_t index);
  void Evict(uint32_t index);
  uint64_t ReclaimBatch(uint64_t pages);
  void ShrinkActive(uint64_t pages);
  bool IsFull() const;
  void MakeRoom();

  MemoryOptions options_;
  std::deque<CacheFile> files_;  // never moved
  std::vector<Page> pages_;
  std::vector<uint64_t> node_pages_;
  List inactive_;
  List active_;
  uint64_t resident_ = 0;
  bool has_given_up_ = false;  // nothing can be freed until a page has been read
  uint32_t evictions_ = 0;
  CacheStats stats_;
  std::vector<int8_t> page_nodes_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_PAGE_CACHE_H_
