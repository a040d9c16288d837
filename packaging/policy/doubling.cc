// SPDX-License-Identifier: Apache-2.0
// A cache policy in fifty lines: reads ahead of each file, twice as far with each miss in sequence.
//   make && sudo make install && ppcctl reg_policy /srv/models doubling '{"most": 64}'
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <ppc.hpp>

namespace {

constexpr uint64_t kMiB = 1 << 20;

class Doubling : public ppc::Policy {
 public:
  // Refuse a configuration that makes no sense: the registration fails, nothing changes.
  int Init() override {
    const char* most = std::strstr(context()->config, "\"most\":");
    if (most != nullptr) most_ = std::strtoull(most + 7, nullptr, 10) * kMiB;
    return most_ >= kMiB ? 0 : -1;
  }

  // At each miss, on the one thread of all hooks; the list stays valid until the next call.
  prefetch_ios* Prefetch(const miss_io& miss) override {
    list_.Clear();
    Reader& reader = readers_[miss.file];
    const uint64_t end = miss.offset + miss.size;
    const bool is_near = miss.offset <= reader.loaded && end + most_ > reader.loaded;
    reader.window = is_near ? std::min(2 * reader.window, most_) : kMiB;
    if (!is_near) reader.loaded = end;
    const uint64_t target = std::min(end + reader.window, miss.file_bytes);
    if (target <= reader.loaded) return nullptr;
    list_.Add(miss.file, reader.loaded, target - reader.loaded).xpu = miss.xpu;
    reader.loaded = target;
    context()->stat(context(), "asked_bytes", asked_ += list_.ios()[0].size);
    return list_.Prefetch();
  }

 private:
  struct Reader {
    uint64_t window = kMiB;
    uint64_t loaded = 0;  // asked for up to here
  };

  uint64_t most_ = 64 * kMiB;
  uint64_t asked_ = 0;
  std::map<uint64_t, Reader> readers_;  // by file
  ppc::IoList list_;
};

}  // namespace

PPC_POLICY(Doubling)
