// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/progress.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

namespace ppc::maio {
namespace {

constexpr uint64_t kMagic = 0x3247'4f52'5050'4350;  // and the format's number
// No sum of bytes read, again and again, comes near.
constexpr uint64_t kMostBytes = 1ull << 56;
constexpr double kMostRate = 1e4;

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* data = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), data, data + sizeof(value));
  }
  template <typename List, typename PutOne>
  void PutList(const List& list, PutOne put) {
    Put(static_cast<uint32_t>(list.size()));
    for (const auto& one : list) put(one);
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

// After the end, and after Fail, everything is zero.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}
  template <typename T>
  T Get() {
    static_assert(std::is_arithmetic_v<T>);
    T value = {};
    if (left_.size() < sizeof(value)) return Fail(), value;
    std::memcpy(&value, left_.data(), sizeof(value));
    left_ = left_.subspan(sizeof(value));
    return value;
  }
  uint64_t GetUpTo(uint64_t most) { return Checked(Get<uint64_t>(), most); }
  uint32_t GetUpTo32(uint64_t most) { return Checked(Get<uint32_t>(), most); }
  bool GetBool() { return GetUpTo32(1) != 0; }
  // Each of them takes more than a byte.
  template <typename List, typename GetOne>
  void GetList(List* list, GetOne get) {
    const auto count = GetUpTo32(left_.size());
    for (uint32_t i = 0; i < count && is_good_; i++) list->push_back(get());
  }
  void Fail() {
    is_good_ = false;
    left_ = {};
  }
  bool is_good() const { return is_good_; }
  bool is_at_end() const { return left_.empty(); }

 private:
  template <typename T>
  T Checked(T value, uint64_t most) {
    if (value > most) return Fail(), T{0};
    return value;
  }
  std::span<const uint8_t> left_;
  bool is_good_ = true;
};

void PutRun(Writer* out, const UseRun& run) {
  out->Put(run.file);
  out->Put(run.index);
  out->Put(run.count);
}

void PutGroup(Writer* out, const GroupProgress& group) {
  for (const uint64_t value : {group.pos, group.consumed, group.last_ns, group.released})
    out->Put(value);
  out->Put(group.rate);
  out->Put(uint32_t{group.is_dropped});
  out->PutList(group.streams, [&](const StreamProgress& s) {
    for (const uint32_t value : {s.file, s.front, s.pass, s.open_id}) out->Put(value);
    for (const uint64_t value : {s.front_page, s.pos}) out->Put(value);
    out->Put(uint32_t{s.is_user});
    out->Put(uint32_t{s.is_active});
  });
  out->PutList(group.passed, [&](const PassedProgress& p) {
    PutRun(out, p.run);
    out->Put(p.stamp);
  });
  out->PutList(group.burnt, [&](const UseRun& run) { PutRun(out, run); });
}

uint32_t GetFile(Reader* in, const Layout& layout) {
  const size_t files = layout.files().size();
  if (files == 0) in->Fail();
  return in->GetUpTo32(files - 1);
}

UseRun GetRun(Reader* in, const Layout& layout, uint32_t group) {
  UseRun run;
  run.file = GetFile(in, layout);
  const size_t uses = in->is_good() ? layout.ListOf(group, run.file).size() : 0;
  run.index = in->GetUpTo32(uses);
  run.count = in->GetUpTo32(uses - run.index);
  if (run.count == 0) in->Fail();
  return run;
}

// No use is told of twice, no stream either.
bool IsConsistent(const GroupProgress& group) {
  std::vector<UseRun> runs = group.burnt;
  for (const PassedProgress& passed : group.passed) runs.push_back(passed.run);
  std::ranges::sort(runs, {}, [](const UseRun& r) { return std::pair(r.file, r.index); });
  for (size_t i = 1; i < runs.size(); i++) {
    const UseRun& before = runs[i - 1];
    if (before.file == runs[i].file && before.index + before.count > runs[i].index) return false;
  }
  std::vector<uint32_t> files;
  for (const StreamProgress& stream : group.streams) files.push_back(stream.file);
  std::ranges::sort(files);
  return std::ranges::adjacent_find(files) == files.end();
}

GroupProgress GetGroup(Reader* in, const Layout& layout, uint32_t index) {
  GroupProgress group;
  group.pos = in->GetUpTo(layout.groups()[index].bytes);
  group.consumed = in->GetUpTo(kMostBytes);
  group.last_ns = in->Get<uint64_t>();
  group.released = in->GetUpTo(layout.groups()[index].bytes);
  group.rate = in->Get<double>();
  if (!(group.rate >= 0 && group.rate <= kMostRate)) in->Fail();
  group.is_dropped = in->GetBool();
  in->GetList(&group.streams, [&] {
    StreamProgress s;
    s.file = GetFile(in, layout);
    const size_t uses = in->is_good() ? layout.ListOf(index, s.file).size() : 0;
    s.front = in->GetUpTo32(uses);
    s.pass = in->GetUpTo32(uses);
    s.open_id = in->Get<uint32_t>();
    s.front_page = in->GetUpTo(kMaxFileBytes / kPage);
    s.pos = in->GetUpTo(layout.groups()[index].bytes);
    s.is_user = in->GetBool();
    s.is_active = in->GetBool();
    return s;
  });
  in->GetList(&group.passed, [&] {
    PassedProgress passed;
    passed.run = GetRun(in, layout, index);
    passed.stamp = in->GetUpTo(2 * kMostBytes);
    return passed;
  });
  in->GetList(&group.burnt, [&] { return GetRun(in, layout, index); });
  if (in->is_good() && !IsConsistent(group)) in->Fail();
  return group;
}

}  // namespace

std::vector<uint8_t> EncodeProgress(const Layout& layout, const Progress& progress) {
  Writer out;
  out.Put(kMagic);
  out.Put(layout.Digest());
  out.Put(progress.distance);
  out.Put(uint32_t{progress.is_constrained});
  out.PutList(progress.groups, [&](const GroupProgress& group) { PutGroup(&out, group); });
  return out.Take();
}

std::optional<Progress> DecodeProgress(const Layout& layout, std::span<const uint8_t> bytes) {
  Reader in(bytes);
  if (in.Get<uint64_t>() != kMagic || in.Get<uint64_t>() != layout.Digest()) return std::nullopt;
  Progress progress;
  progress.distance = in.GetUpTo(kMostBytes);
  progress.is_constrained = in.GetBool();
  uint32_t index = 0;
  if (in.GetUpTo32(kMaxGroups) != layout.groups().size()) return std::nullopt;
  for (; index < layout.groups().size() && in.is_good(); index++)
    progress.groups.push_back(GetGroup(&in, layout, index));
  if (!in.is_good() || !in.is_at_end()) return std::nullopt;
  return progress;
}

}  // namespace ppc::maio
