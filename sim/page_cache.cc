// SPDX-License-Identifier: Apache-2.0
#include "sim/page_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ppc::sim {
namespace {

constexpr uint64_t kReclaimBatch = 32;  // SWAP_CLUSTER_MAX

}  // namespace

PageCache::PageCache(const MemoryOptions& options)
    : options_(options), node_pages_(std::max<uint32_t>(options.nodes, 1), 0) {}

CacheFile* PageCache::AddFile(const std::string& path, uint64_t bytes, std::string head) {
  CacheFile file;
  file.number = files_.size() + 1;
  file.path = path;
  file.bytes = bytes;
  file.head = std::move(head);
  file.first = static_cast<uint32_t>(pages_.size());
  file.pages = static_cast<uint32_t>((bytes + kPage - 1) / kPage);
  pages_.resize(pages_.size() + file.pages);
  files_.push_back(std::move(file));
  return &files_.back();
}

CacheFile* PageCache::Find(uint64_t number) {
  if (number == 0 || number > files_.size() || files_[number - 1].is_gone) return nullptr;
  return &files_[number - 1];
}

CacheFile* PageCache::FindPath(const std::string& path) {
  for (CacheFile& file : files_) {
    if (!file.is_gone && file.path == path) return &file;
  }
  return nullptr;
}

// ----------------------------------------------------------------------- lists

void PageCache::PushHead(uint32_t index, uint8_t number) {
  List& list = ListOf(number);
  Page& page = pages_[index];
  page.list = number;
  page.prev = kNone;
  page.next = list.head;
  if (list.head != kNone) pages_[list.head].prev = index;
  list.head = index;
  if (list.tail == kNone) list.tail = index;
  ++list.size;
}

void PageCache::Remove(uint32_t index) {
  Page& page = pages_[index];
  if (page.list == 0) return;
  List& list = ListOf(page.list);
  (page.prev != kNone ? pages_[page.prev].next : list.head) = page.next;
  (page.next != kNone ? pages_[page.next].prev : list.tail) = page.prev;
  page.list = 0;
  --list.size;
}

void PageCache::Activate(uint32_t index) {
  Remove(index);
  pages_[index].referenced = false;
  PushHead(index, 2);
}

// --------------------------------------------------------------------- reclaim

bool PageCache::IsFull() const {
  if (options_.limit_bytes != 0 && used_bytes() + kPage > options_.limit_bytes) return true;
  return resident_bytes() + kPage > options_.node_bytes * node_pages_.size();
}

void PageCache::Evict(uint32_t index) {
  Page& page = pages_[index];
  Remove(index);
  --resident_;
  --node_pages_[static_cast<size_t>(page.node)];
  page.state = PageState::kAbsent;
  page.mapped = page.accessed = 0;
  page.referenced = page.readahead = false;
  if (page.read_unused) stats_.dropped_unused += kPage;
  page.read_unused = false;
}

void PageCache::ShrinkActive(uint64_t pages) {
  for (; pages > 0 && active_.tail != kNone; --pages) {
    const uint32_t index = active_.tail;
    Remove(index);
    pages_[index].referenced = false;
    pages_[index].accessed = 0;
    PushHead(index, 1);
  }
}

// Looks at `pages` pages at the end of the inactive list; returns how many it freed.
uint64_t PageCache::ReclaimBatch(uint64_t pages) {
  // Balance below a gigabyte: inactive must not be smaller than active.
  if (inactive_.size < active_.size) ShrinkActive(pages);
  uint64_t freed = 0;
  for (; pages > 0 && inactive_.tail != kNone; --pages) {
    const uint32_t index = inactive_.tail;
    Page& page = pages_[index];
    const int touched = std::popcount(page.accessed);
    page.accessed = 0;
    if (page.state == PageState::kReading) {
      Remove(index);
      PushHead(index, 1);
    } else if (touched > 1 || (touched == 1 && page.referenced)) {
      Activate(index);
    } else if (touched == 1) {
      page.referenced = true;
      Remove(index);
      PushHead(index, 1);
    } else {
      Evict(index);
      page.shadow = true;
      page.prev = evictions_++;
      stats_.reclaimed += kPage;
      ++freed;
    }
  }
  return freed;
}

// ----------------------------------------------------------------------- pages

void PageCache::MakeRoom() {
  constexpr int kRounds = 64;
  // The first round clears the marks of pages in use.  If the third one frees nothing either, all
  // pages are being read, and the kernel gives up too.
  constexpr int kFruitlessRounds = 3;
  int fruitless = 0;
  for (int round = 0; IsFull() && round < kRounds && !has_given_up_; ++round) {
    ++stats_.limit_hits;
    // Batch after batch, through all pages if necessary, until one has freed something.
    uint64_t looked = 0;
    uint64_t freed = ReclaimBatch(kReclaimBatch);
    for (; freed == 0 && looked < inactive_.size + active_.size; looked += kReclaimBatch)
      freed = ReclaimBatch(kReclaimBatch);
    fruitless = freed == 0 ? fruitless + 1 : 0;
    has_given_up_ = fruitless == kFruitlessRounds;
  }
}

void PageCache::Add(uint32_t index, int node, bool by_loader, uint32_t io, PayerId payer) {
  MakeRoom();
  Page& page = pages_[index];
  const auto wanted = static_cast<size_t>(std::clamp<int>(node, 0, int(node_pages_.size()) - 1));
  size_t at = wanted;
  for (size_t i = 0; i < node_pages_.size() && (node_pages_[at] + 1) * kPage > options_.node_bytes;
       ++i) {
    at = (wanted + i) % node_pages_.size();
  }
  if (at != wanted) stats_.spilled += kPage;
  page.node = static_cast<int8_t>(at);
  if (by_loader && index < page_nodes_.size() && page_nodes_[index] >= 0) {
    stats_.exclusive += kPage;
    if (page_nodes_[index] != page.node) stats_.misplaced += kPage;
  }
  page.state = PageState::kReading;
  page.io = io;
  page.by_loader = by_loader;
  const bool refaults = page.shadow && evictions_ - page.prev <= active_.size;
  page.shadow = false;
  ++resident_;
  ++node_pages_[at];
  stats_.peak = std::max(stats_.peak, resident_bytes());
  stats_.read += kPage;
  stats_.charged[std::min<size_t>(payer, kPayers - 1)] += kPage;
  if (page.ever_read) stats_.reread += kPage;
  if (page.released && !by_loader) stats_.refaulted += kPage;
  page.released = false;
  page.ever_read = page.read_unused = true;
  PushHead(index, refaults ? 2 : 1);
}

void PageCache::ReadDone(uint32_t index) {
  Page& page = pages_[index];
  if (page.state != PageState::kReading) return;
  has_given_up_ = false;
  page.state = PageState::kUptodate;
  page.failed = false;
}

void PageCache::ReadFailed(uint32_t index) {
  if (pages_[index].state != PageState::kReading) return;
  has_given_up_ = false;
  Evict(index);
  pages_[index].failed = true;
}

void PageCache::DropUnmapped() {
  for (const List* const list : {&inactive_, &active_}) {
    for (uint32_t index = list->head; index != kNone;) {
      const Page& page = pages_[index];
      const uint32_t next = page.next;
      if (page.state == PageState::kUptodate && page.mapped == 0) Evict(index);
      index = next;
    }
  }
}

bool PageCache::Drop(uint32_t index, bool unmap) {
  Page& page = pages_[index];
  if (page.state != PageState::kUptodate || (page.mapped != 0 && !unmap)) return false;
  Evict(index);
  page.released = true;
  stats_.evicted += kPage;
  return true;
}

void PageCache::MarkAccessed(uint32_t index) {
  Page& page = pages_[index];
  if (!page.referenced) {
    page.referenced = true;
  } else if (page.list == 1) {
    Activate(index);
  }
}

void PageCache::Touch(uint32_t index, uint32_t process) {
  Page& page = pages_[index];
  page.accessed |= page.mapped & (1u << process);
  if (!page.wanted && index < page_nodes_.size() && page_nodes_[index] >= 0) {
    stats_.used_alone += kPage;
    if (page_nodes_[index] != page.node) stats_.used_afar += kPage;
  }
  page.wanted = true;
  page.read_unused = false;
}

void PageCache::Unmap(uint32_t first, uint32_t count, uint32_t process) {
  const uint32_t bit = 1u << process;
  for (uint32_t i = first; i < first + count; ++i) {
    Page& page = pages_[i];
    if ((page.mapped & bit) == 0) continue;
    if ((page.accessed & bit) != 0) MarkAccessed(i);
    page.mapped &= ~bit;
    page.accessed &= ~bit;
  }
}

void PageCache::DropEverything() {
  for (Page& page : pages_) page = Page{};
  inactive_ = active_ = List{};
  std::fill(node_pages_.begin(), node_pages_.end(), 0);
  resident_ = 0;
  has_given_up_ = false;
}

void PageCache::ForgetHistory() {
  for (Page& page : pages_) {
    page.ever_read = page.wanted = page.released = page.read_unused = false;
  }
  stats_ = CacheStats{};
}

void PageCache::SetOther(uint64_t bytes) {
  while (options_.other_bytes < bytes) {
    options_.other_bytes = std::min(bytes, options_.other_bytes + kReclaimBatch * kPage);
    MakeRoom();
  }
  options_.other_bytes = bytes;
}

}  // namespace ppc::sim
