// SPDX-License-Identifier: Apache-2.0
// Simulated loads, see simulated_recording.h.
// Threads: free functions without state.
#include "bench/template/simulated_recording.h"

#include <algorithm>
#include <cstdio>
#include <queue>
#include <random>
#include <utility>

#include "daemon/base/digests.h"
#include "policies/maio/record/recorder.h"
#include "tools/model/common/content.h"
#include "tools/model/common/slice.h"
#include "tools/model/mkmodel/writer.h"

namespace ppc::bench {
namespace {

using maio::kPage;

// One ACCESS event of the kernel module covers at most this.
constexpr uint64_t kEventPages = (16 << 20) / kPage;
constexpr uint64_t kEventNs = 100'000'000;
constexpr double kNsPerPage = 4096.0;  // a worker takes 1 GB/s
constexpr uint64_t kInitNs = 6'000'000'000;

struct Event {
  uint64_t time_ns = 0;
  uint32_t file = 0;
  uint64_t first = 0;
  uint64_t end = 0;
};

// What one worker does, as events in the order in which they reach the recorder.
class SimulatedWorker {
 public:
  SimulatedWorker(uint32_t rank, uint32_t workers, const Jitter& jitter)
      : rank_(rank),
        workers_(workers),
        jitter_(jitter),
        random_(jitter.seed * 1000 + rank),
        now_ns_(kInitNs),
        speed_(1 + jitter.rate * Unit()) {}

  std::vector<Event> Load(uint32_t file, const Shard& shard, uint64_t header_bytes) {
    events_.clear();
    Touch(file, 0, header_bytes);
    for (const Tensor& tensor : shard.tensors) {
      const Slice slice = SliceTensor(tensor, rank_, workers_);
      if (slice.stride_bytes <= kPage && slice.rows > 0) {  // no page is left out
        Touch(file, header_bytes + slice.begin,
              (slice.rows - 1) * slice.stride_bytes + slice.run_bytes);
        continue;
      }
      for (uint64_t row = 0; row < slice.rows; ++row)
        Touch(file, header_bytes + slice.begin + row * slice.stride_bytes, slice.run_bytes);
    }
    Flush();
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
    return std::move(events_);
  }

 private:
  double Unit() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  // The module's rule for merging, see kmod/trace_access.c.
  void Touch(uint32_t file, uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    uint64_t page = offset / kPage;
    const uint64_t end = (offset + bytes + kPage - 1) / kPage;
    while (page < end) {
      const bool merges = pending_.end > pending_.first && pending_.file == file &&
                          page >= pending_.first && page <= pending_.end &&
                          page + 1 - pending_.first <= kEventPages &&
                          now_ns_ - pending_.time_ns < kEventNs;
      if (!merges) {
        Flush();
        pending_ = {now_ns_, file, page, page};
      }
      const uint64_t stop = std::min(end, pending_.first + kEventPages);
      now_ns_ += static_cast<uint64_t>(static_cast<double>(stop - page) * kNsPerPage * speed_);
      pending_.end = std::max(pending_.end, stop);
      page = stop;
    }
  }

  void Flush() {
    const Event event = std::exchange(pending_, {});
    if (event.end <= event.first) return;
    speed_ = 1 + jitter_.rate * Unit();
    const uint64_t pages = event.end - event.first;
    if (pages > 1 && Unit() < jitter_.cut) {
      const uint64_t cut = event.first + 1 + static_cast<uint64_t>(Unit() * (double)(pages - 1));
      Send({event.time_ns, event.file, event.first, cut});
      Send({event.time_ns + 1, event.file, cut, event.end});
    } else {
      Send(event);
    }
    if (Unit() < jitter_.repeated) {
      const uint64_t from = event.first + static_cast<uint64_t>(Unit() * (double)pages);
      Send({now_ns_, event.file, from, std::min(event.end, from + 16)});
    }
  }

  void Send(Event event) {
    if (Unit() < jitter_.late)
      event.time_ns += static_cast<uint64_t>(Unit() * static_cast<double>(jitter_.late_ms) * 1e6);
    events_.push_back(event);
  }

  uint32_t rank_, workers_;
  Jitter jitter_;
  std::mt19937_64 random_;
  uint64_t now_ns_;
  double speed_;
  Event pending_;
  std::vector<Event> events_;
};

maio::TemplateFile File(const std::string& path, uint64_t bytes, uint64_t seed) {
  maio::TemplateFile file;
  file.path = path;
  file.size = bytes;
  file.kind = maio::KindOfPath(path);
  // Downloads end some minutes apart.
  file.mtime_ns =
      1'760'000'000'000'000'000 + static_cast<int64_t>(MixWord(seed ^ bytes) % 3'600'000'000'000);
  const Sha256Digest digest = Sha256Of(path.data(), path.size());
  std::copy_n(digest.begin(), file.fingerprint.size(), file.fingerprint.begin());
  return file;
}

// The service's own process reads what is small; its workers read the index.
void TouchSmallFiles(maio::Recorder* recorder, const ModelSpec& scaled,
                     const std::vector<Shard>& shards, uint32_t workers, const Jitter& jitter) {
  const std::pair<const char*, uint64_t> files[] = {
      {"config.json", ConfigJson(scaled).size()},
      {"generation_config.json", 243},
      {"model.safetensors.index.json", IndexJson(shards).size()},
      {"tokenizer.json", scaled.tokenizer_bytes},
      {"tokenizer_config.json", 7305}};
  uint64_t number = 1'000'000;
  for (const auto& [name, bytes] : files) {
    const auto file = static_cast<uint32_t>(
        recorder->AddFile(++number, File(scaled.name + "/" + name, bytes, jitter.seed)));
    const uint64_t end = (bytes + kPage - 1) / kPage;
    recorder->Touch(maio::kCommonGroup, file, 0, end, number);
    if (std::string(name).find("index") == std::string::npos) continue;
    for (uint32_t worker = 0; worker < workers; ++worker)
      recorder->Touch(worker, file, 0, end, kInitNs / 2);
  }
}

}  // namespace

maio::Template SimulateRecording(const ModelSpec& model, uint64_t scale, uint32_t workers,
                                 const Jitter& jitter) {
  const std::vector<Shard> shards = ShardModel(model, scale);
  maio::Recorder recorder(0);
  TouchSmallFiles(&recorder, ScaleModel(model, scale), shards, workers, jitter);
  std::vector<SimulatedWorker> workers_list;
  for (uint32_t rank = 0; rank < workers; ++rank) workers_list.emplace_back(rank, workers, jitter);
  std::vector<uint32_t> files;
  std::vector<uint64_t> headers;
  for (size_t i = 0; i < shards.size(); ++i) {
    headers.push_back(shards[i].Header().size());
    files.push_back(static_cast<uint32_t>(
        recorder.AddFile(i + 1, File(model.name + "/" + shards[i].file,
                                     headers[i] + shards[i].data_bytes(), jitter.seed))));
  }
  // Each worker goes from shard to shard at its own speed.
  struct Stream {
    std::vector<Event> events;
    size_t next = 0, shard = 0;
  };
  std::vector<Stream> streams(workers);
  using Due = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue;
  const auto advance = [&](uint32_t rank) {
    Stream& stream = streams[rank];
    while (stream.next == stream.events.size() && stream.shard < shards.size()) {
      const size_t shard = stream.shard++;
      stream.events = workers_list[rank].Load(files[shard], shards[shard], headers[shard]);
      stream.next = 0;
    }
    if (stream.next < stream.events.size()) queue.emplace(stream.events[stream.next].time_ns, rank);
  };
  for (uint32_t rank = 0; rank < workers; ++rank) advance(rank);
  while (!queue.empty()) {
    const uint32_t rank = queue.top().second;
    queue.pop();
    const Event& event = streams[rank].events[streams[rank].next++];
    recorder.Touch(rank, event.file, event.first, event.end, event.time_ns);
    advance(rank);
  }
  maio::Template t =
      std::move(recorder).Finish("0123456789abcdef0123456789abcdef",
                                 maio::kComplete | maio::kTraced, 1'760'000'000'000'000'000);
  t.generation = 1;
  t.meta = R"({"load_ms":60000,"params":{"model":")" + model.name + R"(","tp":)" +
           std::to_string(workers) + R"(},"recorder":"maio 1","workers":)" +
           std::to_string(workers) + "}";
  return t;
}

}  // namespace ppc::bench
