// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/template_feedback.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {
namespace {

// Fewer events say nothing.
constexpr uint64_t kLeastEvents = 64;
constexpr uint64_t kUnknownShare = 10;  // 1/so much of the events
constexpr uint64_t kForeignShare = 4;
constexpr uint64_t kUnlistedShare = 4;  // of the listed bytes
constexpr uint64_t kUnreadShare = 4;
constexpr uint64_t kRefaultShare = 20;  // of the dropped bytes
constexpr uint64_t kLeastRefaultBytes = 16ull << 20;
// Smaller ones that are not listed are not worth another recording.
constexpr uint64_t kLeastAddedBytes = 16ull << 20;

std::string Percent(uint64_t part, uint64_t whole) {
  return std::to_string(whole != 0 ? part * 100 / whole : 100) + "%";
}

std::string Tell(const ppc_context* context, const ServiceSpec& spec, int level,
                 const std::string& said) {
  context->log(context, level, ("maio: service " + spec.service_id + ": " + said).c_str());
  return said;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;  // first page, end; sorted

ExtentList WithoutRanges(const ExtentList& extents, const std::map<uint32_t, Ranges>& left_out) {
  ExtentList out;
  for (const Extent& e : extents) {
    const auto file = left_out.find(e.file);
    uint64_t page = e.page;
    const uint64_t end = e.page + e.pages;
    if (file != left_out.end()) {
      auto range = std::ranges::upper_bound(file->second, page, {}, &Ranges::value_type::second);
      for (; range != file->second.end() && range->first < end; ++range) {
        if (range->first > page) out.push_back({e.file, page, range->first - page});
        page = range->second;
      }
    }
    if (page < end) out.push_back({e.file, page, end - page});
  }
  return out;
}

void LeaveOut(const std::vector<UnreadRange>& unread, Template* t) {
  std::map<std::string, uint32_t> files;
  for (uint32_t f = 0; f < t->files.size(); f++) files[t->files[f].path] = f;
  std::map<uint32_t, Ranges> ranges;
  for (const UnreadRange& range : unread) {
    const auto file = files.find(range.path);
    if (file != files.end()) ranges[file->second].emplace_back(range.first_page, range.end_page);
  }
  for (auto& [file, list] : ranges) std::ranges::sort(list);
  for (TemplateGroup& group : t->groups) {
    group.extents = WithoutRanges(group.extents, ranges);
    group.time_ms.clear();
  }
}

// Files without extents; the others get new places.
void LeaveOutEmptyFiles(Template* t) {
  std::vector<bool> is_listed(t->files.size(), false);
  for (const TemplateGroup& group : t->groups) {
    group.extents.ForEachSeries(
        [&](const Extent& e, uint64_t, uint64_t) { is_listed[e.file] = true; });
  }
  std::vector<uint32_t> places(t->files.size(), 0);
  std::vector<TemplateFile> files;
  for (uint32_t f = 0; f < t->files.size(); f++) {
    places[f] = static_cast<uint32_t>(files.size());
    if (is_listed[f]) files.push_back(std::move(t->files[f]));
  }
  t->files = std::move(files);
  for (TemplateGroup& group : t->groups) {
    ExtentList moved;
    group.extents.ForEachSeries([&](const Extent& e, uint64_t stride, uint64_t count) {
      moved.AppendSeries({places[e.file], e.page, e.pages}, stride, count);
    });
    group.extents = std::move(moved);
  }
  std::erase_if(t->groups, [](const TemplateGroup& group) { return group.extents.empty(); });
}

// Whole: only misses of it were told, and not how much was read.  That most of it is in the page
// cache says that it was.
bool AddWhole(const ppc_context* context, const std::string& path, Template* t) {
  ppc_file_info info = {};
  ppc_residency state = {};
  const bool is_there = ValidPath(path) && context->file_info(context, path.c_str(), &info) == 0;
  if (!is_there || info.size < kLeastAddedBytes || context->resident == nullptr) return false;
  if (context->resident(context, info.file, 0, info.size, &state, nullptr, 0) != 0) return false;
  if (state.resident < info.size / 2 || t->files.size() >= kMaxFiles) return false;
  TemplateFile file;
  file.path = path;
  file.size = info.size;
  file.mtime_ns = info.mtime_ns;
  file.kind = KindOfPath(path, info.size);
  if (file.kind == FileKind::kSmall) return false;
  const auto index = static_cast<uint32_t>(t->files.size());
  t->files.push_back(std::move(file));
  auto group = std::ranges::find(t->groups, 0u, &TemplateGroup::id);
  if (group == t->groups.end()) group = t->groups.insert(t->groups.begin(), TemplateGroup());
  group->extents.push_back({index, 0, (info.size + kPage - 1) / kPage});
  return true;
}

}  // namespace

Judgement Judge(const TemplateUse& use) {
  const uint64_t events = use.matched_events + use.unknown_events + use.foreign_events;
  const bool is_told = events >= kLeastEvents;
  if (is_told && use.unknown_events * kUnknownShare > events) {
    return {Verdict::kRecord,
            Percent(use.unknown_events, events) + " of the events are on pages that it lacks"};
  }
  if (is_told && use.foreign_events * kForeignShare > events) {
    return {Verdict::kRecord, Percent(use.foreign_events, events) +
                                  " of the events are on pages that it lists for other workers"};
  }
  if (use.refault_bytes > kLeastRefaultBytes &&
      use.refault_bytes * kRefaultShare > use.dropped_bytes) {
    return {Verdict::kRecord, Percent(use.refault_bytes, use.dropped_bytes) +
                                  " of the dropped bytes were read again"};
  }
  if (use.gone_bytes * kStaleShare > use.listed_bytes + use.gone_bytes) {
    return {Verdict::kRecord, Percent(use.gone_bytes, use.listed_bytes + use.gone_bytes) +
                                  " of its small files are gone"};
  }
  if (use.unread_bytes * kUnreadShare > use.model_bytes) {
    return {Verdict::kRepair,
            Percent(use.unread_bytes, use.model_bytes) + " of what it lists was not read"};
  }
  if (use.unlisted_bytes * kUnlistedShare > use.listed_bytes) {
    return {Verdict::kRepair, "files that it lacks were read, " +
                                  Percent(use.unlisted_bytes, use.listed_bytes) +
                                  " of what it lists"};
  }
  return {};
}

std::string InvalidateTemplate(const ppc_context* context, const ServiceSpec& spec,
                               const std::string& why) {
  const std::string part = PartPath(context->template_dir, spec.template_id, spec.node);
  if (spec.nodes > 1) std::rename(part.c_str(), (part + ".stale").c_str());
  const std::string path = TemplatePath(context->template_dir, spec.template_id);
  if (std::rename(path.c_str(), (path + ".stale").c_str()) != 0) return "";
  return Tell(context, spec, PPC_LOG_WARNING,
              "the template fitted badly (" + why + ") and was set aside; the next start records");
}

std::string RepairTemplate(const ppc_context* context, const ServiceSpec& spec,
                           const std::string& why, const Repair& repair) {
  Template t;
  std::string error;
  if (Load(TemplatePath(context->template_dir, spec.template_id), &t, &error) != 0) return "";
  LeaveOut(repair.unread, &t);
  LeaveOutEmptyFiles(&t);
  size_t added = 0;
  for (const std::string& path : repair.unlisted) added += AddWhole(context, path, &t) ? 1 : 0;
  // Where files were read that cannot be added only a recording tells.
  const bool is_repaired = repair.unlisted.empty() ? !repair.unread.empty() : added != 0;
  if (!is_repaired || t.groups.empty() || !Check(t).empty())
    return InvalidateTemplate(context, spec, why);
  if (added != 0) t.flags |= kRerecord;
  t.generation++;
  if (Store(context->template_dir, t, &error) != 0)
    return Tell(context, spec, PPC_LOG_ERROR, error);
  return Tell(context, spec, PPC_LOG_WARNING,
              "the template fitted badly (" + why + ") and was repaired" +
                  (added != 0 ? "; the next start is recorded, too" : ""));
}

std::string RequestRerecord(const ppc_context* context, const ServiceSpec& spec) {
  Template t;
  std::string said;
  if (Load(TemplatePath(context->template_dir, spec.template_id), &t, &said) != 0) return "";
  t.flags |= kRerecord;
  const bool is_stored = Store(context->template_dir, t, &said) == 0;
  if (is_stored) said = "other model files have joined; the next start is recorded, too";
  return Tell(context, spec, is_stored ? PPC_LOG_INFO : PPC_LOG_ERROR, said);
}

}  // namespace ppc::maio
