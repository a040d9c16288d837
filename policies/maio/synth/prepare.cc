// SPDX-License-Identifier: Apache-2.0
//
// What a service starts with, see prepare.h.
#include "policies/maio/synth/prepare.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "policies/maio/base/run.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/directories.h"
#include "policies/maio/follow/in_memory.h"
#include "policies/maio/synth/load_params.h"
#include "policies/maio/synth/mount_source.h"
#include "policies/maio/synth/synth.h"
#include "policies/maio/synth/synth_files.h"
#include "policies/maio/template/shared_store.h"
#include "policies/maio/template/template_compare.h"

namespace ppc::maio {
namespace {

bool HasWeights(const Template& t) {
  return std::ranges::any_of(
      t.files, [](const TemplateFile& file) { return file.kind != FileKind::kSmall; });
}

// It was recorded of a loader that reads the model through the page cache.
bool ListsModel(const Template& t) {
  uint64_t pages = 0;
  uint64_t bytes = 0;
  for (const TemplateFile& file : t.files) {
    if (file.kind != FileKind::kSmall) bytes += file.size;
  }
  for (const TemplateGroup& group : t.groups) {
    for (const Extent& e : group.extents)
      pages += t.files[e.file].kind != FileKind::kSmall ? e.pages : 0;
  }
  return pages * kPage >= std::max<uint64_t>(std::min(kSeenBytes, bytes / kSeenShare), 1);
}

// Two names of one file: what the second one lists would be loaded, and waited for, twice.
void LeaveOutDoubles(const Template& t, std::vector<uint64_t>* numbers) {
  std::set<uint64_t> seen;
  for (size_t i = 0; i < numbers->size(); i++) {
    uint64_t& number = (*numbers)[i];
    if (number == 0 || t.files[i].kind == FileKind::kSmall) continue;
    if (!seen.insert(number).second) number = 0;
  }
}

// Of such a file all is read, whatever it holds.
bool IsPackage(const TemplateFile& file) {
  return file.kind == FileKind::kSmall && !Known(file.fingerprint);
}

}  // namespace

Fingerprint FingerprintOf(const ppc_context* context, const std::string& path, uint64_t size,
                          FileKind* kind) {
  MountSource source(context);
  return FileFingerprint(&source, path, size, kind);
}

void Preparer::Prepare() {
  Template t;
  std::string error;
  const int rc = LoadKnown(&t, &error);
  const bool is_known = rc == 0;
  const bool wanted = config_.record != RecordMode::kAlways;
  if (!is_known && rc != -ENOENT) {
    Log(PPC_LOG_WARNING, "maio: service " + spec_.service_id + ": " + error);
    out_.reason = error;
  } else if (!is_known) {
    out_.reason = "no template yet";
  } else {
    out_.reason = wanted ? "template found" : "recording was asked for";
  }
  if (is_known) {
    Rename(&t);
    out_.generation = t.generation;
    // Who records compares with what there is.
    const bool is_repeated = !wanted || (t.flags & kProvisional) != 0;
    out_.found = {t.flags, is_repeated ? DistinctBytes(t) : 0, t.generation, t.created_ns};
  }
  const bool is_dummy = LoadFormat() == "dummy";
  if (is_dummy && is_known && HasWeights(t)) {
    out_.reason = WhyNotAhead(LoadFormat());
    return;
  }
  const bool fits = !is_known || FitsWorkers(&t);
  if (!fits) out_.reason = "the template is for " + std::to_string(WorkersOf(t)) + " workers";
  const bool provisional = is_known && fits && (t.flags & kProvisional) != 0;
  // What did not fit the table when it was recorded would not fit it next time.
  const bool is_usable = wanted && is_known && fits && !provisional;
  if (is_usable && (t.flags & kOverflow) != 0) CompleteFromHeaders(&t);
  const bool used = is_usable && Adopt(&t);
  if (!used && is_known && out_.found.bytes == 0) out_.found.bytes = DistinctBytes(t);
  if (!used && wanted && config_.prefetch) {
    waits_ = MustWait(is_known ? &t : nullptr);
    FollowProvisionally(provisional ? &t : nullptr);
    if (waits_ && followed_)
      out_.reason += ", once a process reads the model through the page cache";
  }
  SayMissing();
  out_.is_recorded = !used && config_.record != RecordMode::kNever && !spec_.IsReplica();
  if (!used && spec_.IsReplica()) out_.reason += "; the first of the replicas records";
  out_.is_warm = out_.is_recorded && followed_ && (context_->caps & PPC_MISSES_HUGE) != 0 &&
                 IsPartlyCached(context_, followed_->files, numbers_);
}

void Preparer::SayMissing() {
  if (!followed_ || missing_.empty()) return;
  out_.reason += "; " + *missing_.begin();
  if (missing_.size() > 1)
    out_.reason += " and " + std::to_string(missing_.size() - 1) + " more files";
  out_.reason += missing_.size() > 1 ? " are missing" : " is missing";
}

// Nothing says that the loader does not read with O_DIRECT.
bool Preparer::MustWait(const Template* known) const {
  if (!config_.wait_for_reader || (context_->caps & PPC_MISSES_DIRECT) == 0) return false;
  const std::string program = spec_.params.is_object() ? TextOf(spec_.params, {"program"}) : "";
  return !ReadsThroughCache(LoadFormat(), program) && (known == nullptr || !ListsModel(*known));
}

Preparation Preparer::Finish(uint64_t cookie, uint64_t nonce) {
  if (followed_) {
    for (size_t i = 0; out_.is_recorded && i < numbers_.size(); i++) {
      const bool is_known = numbers_[i] != 0 && (numbers_[i] & SmallFiles::kUnresolved) == 0;
      if (is_known) out_.kinds[numbers_[i]] = followed_->files[i].kind;
    }
    Tables tables;
    tables.nonce = nonce;
    tables.own_bytes = OwnBytes(*followed_);
    tables.waits = waits_;
    tables.deferred = {std::move(deferred_), SmallDirectories(*followed_)};
    tables.small = std::make_unique<SmallFiles>(&*followed_, &numbers_, spec_.number,
                                                cookie | kSmallFilesTag | nonce,
                                                (context_->caps & PPC_CAN_MANY) != 0);
    tables.layout = std::make_unique<Layout>(std::move(*followed_), numbers_, config_.max_pieces);
    if (goes_on_ || MayBeLeftOver(tables)) tables.cached = FindCached(context_, *tables.layout);
    out_.followed = std::move(tables);
  }
  return std::move(out_);
}

// There is not room for all, and an earlier run of the service may have left pages of what is
// needed late.  A reader that was killed gives back memory of its own: there may be some room.
bool Preparer::MayBeLeftOver(const Tables& tables) const {
  const uint64_t bytes = tables.layout->bytes() + tables.small->stats().bytes;
  return memory_.room < kChunkBytes || (memory_.room < bytes && memory_.cache >= kChunkBytes);
}

// Of several nodes: the groups of this one, of the whole template or of the part that it recorded.
int Preparer::LoadKnown(Template* t, std::string* error) {
  int rc = Load(TemplatePath(context_->template_dir, spec_.template_id), t, error);
  if (spec_.nodes == 1 || (rc == 0 && TakeOwnGroups(spec_, t))) return rc;
  const bool is_without = rc == 0;
  const std::string path = PartPath(context_->template_dir, spec_.template_id, spec_.node);
  rc = Load(path, t, error);
  if (rc == 0 && TakeOwnGroups(spec_, t)) return 0;
  if (rc == 0 || is_without) *error = path + ": no part of this node";
  return rc == 0 ? -ENOENT : rc;
}

// With another number of workers each reads other parts of the tensors, which the headers tell.
// Only replicas of the workers that hold the model together read what these do.
bool Preparer::FitsWorkers(Template* t) const {
  const uint32_t recorded = WorkersOf(*t);
  if (spec_.nodes != 1 || spec_.workers == 0 || recorded == 0 || recorded == spec_.workers)
    return true;
  const uint32_t tp = TensorParallelOf(*t);
  const bool is_replicas =
      tp != 0 && tp == TensorParallel() && recorded >= tp && spec_.workers >= tp;
  if (is_replicas) AddReplicas(tp, spec_.workers, t);
  return is_replicas;
}

// Recorded when another directory was registered, above this one or in it: the same files had
// longer or shorter names.  The largest tells.
void Preparer::Rename(Template* t) const {
  const auto largest = std::ranges::max_element(t->files, {}, &TemplateFile::size);
  const auto is_there = [this](const std::string& path) {
    ppc_file_info info = {};
    return ValidPath(path) && context_->file_info(context_, path.c_str(), &info) == 0;
  };
  if (largest == t->files.end() || is_there(largest->path)) return;
  const std::string& name = largest->path;
  std::string above;  // to be taken away from the names
  std::string below;  // to be put before them
  for (size_t at = name.find('/'); above.empty() && at != std::string::npos;
       at = name.find('/', at + 1)) {
    if (is_there(name.substr(at + 1))) above = name.substr(0, at + 1);
  }
  if (above.empty()) {
    MountSource source(context_);
    const std::optional<ModelPlace> place = FindPlace(&source);
    if (!place || place->dir.empty() || !is_there(place->dir + "/" + name)) return;
    below = place->dir + "/";
  }
  std::vector<std::string> before;
  for (TemplateFile& file : t->files) {
    before.push_back(file.path);
    if (file.path.starts_with(above)) file.path = below + file.path.substr(above.size());
  }
  if (Check(*t).empty()) return;
  for (size_t i = 0; i < before.size(); i++) t->files[i].path = std::move(before[i]);
}

std::optional<ModelPlace> Preparer::FindPlace(ModelSource* source) const {
  std::string model;
  if (!spec_.params.is_object()) return FindModel(source, context_->mount, model);
  // A file says more than the directory that it is in.
  model = TextOf(spec_.params, {"model"});
  if (std::optional<ModelPlace> place = FindModel(source, context_->mount, model);
      place && !place->file.empty())
    return place;
  model = TextOf(spec_.params, {"model_path", "path", "model"});
  return FindModel(source, context_->mount, model);
}

// What is followed while the start is recorded, so that it is not slow: the doubtful template
// that there is, the model's headers, or both.
void Preparer::FollowProvisionally(Template* known) {
  std::string reason = out_.reason;
  bool synthetic = known != nullptr && (known->flags & kSynthetic) != 0;
  bool complete = known != nullptr && (known->flags & (kPartial | kWarmSuspect | kOverflow)) == 0;
  std::optional<Template> headers;
  if (!complete) headers = SynthesizeModel();
  // Of a sampled recording order and workers are guesses, too: the headers know better.
  if (headers && (context_->caps & PPC_IS_SAMPLED) != 0) known = nullptr;
  if (known != nullptr) {
    if (headers && !synthetic) {
      UseKnownNames(*known, &*headers);
      CompleteWith(known, *headers);
    }
    bool good = Check(*known).empty() && Adopt(known);
    if (good && !synthetic) out_.reason = reason + ", of a recording to be repeated";
    if (good) return;
    if (!headers) headers = SynthesizeModel();
  }
  if (headers && Adopt(&*headers)) out_.reason = reason + "; follows the model's headers";
}

// A link of a hub cache and its blob are one file: what the headers name by the one may be recorded
// by the other.
void Preparer::UseKnownNames(const Template& known, Template* headers) const {
  const auto numbers_of = [this](const Template& t) {
    std::vector<std::string> names;
    for (const TemplateFile& file : t.files) {
      if (!IsPackage(file)) names.push_back(file.path);
    }
    const std::vector<FileLookup> found = LookUp(context_, names);
    std::map<uint64_t, std::string> paths;
    for (size_t i = 0; i < names.size(); i++) {
      if (found[i].info.file != 0) paths.emplace(found[i].info.file, names[i]);
    }
    return paths;
  };
  const std::map<uint64_t, std::string> recorded = numbers_of(known);
  std::map<std::string, std::string> names;
  for (const auto& [number, path] : numbers_of(*headers)) {
    const auto same = recorded.find(number);
    if (same != recorded.end()) names[path] = same->second;
  }
  for (TemplateFile& file : headers->files) {
    const auto name = names.find(file.path);
    if (name != names.end()) file.path = name->second;
  }
}

void Preparer::CompleteFromHeaders(Template* t) {
  out_.reason += "; the table of extents was full when it was recorded";
  std::optional<Template> headers = SynthesizeModel();
  if (!headers) return;
  Template whole = *t;
  UseKnownNames(whole, &*headers);
  CompleteWith(&whole, *headers);
  if (!Check(whole).empty()) return;
  out_.reason += ", completed from the model's headers";
  *t = std::move(whole);
}

// This run's number of each file, 0 for those that changed or are gone.  In the order of the table,
// which is that of the recording; thousands of files on a cold disk take a while, so of packages
// only those that are needed first are looked up before loading begins.
std::vector<uint64_t> Preparer::CheckFiles(const Template& t) {
  std::vector<uint64_t> numbers(t.files.size(), 0);
  std::vector<size_t> asked;
  std::vector<std::string> names;
  size_t packages = 0;
  deferred_.clear();
  for (size_t i = 0; i < t.files.size(); i++) {
    const bool is_first = t.files[i].kind != FileKind::kSmall || packages++ < kLookUpsFirst;
    if (is_first || !IsPackage(t.files[i])) {
      asked.push_back(i);
      names.push_back(t.files[i].path);
    } else {
      numbers[i] = SmallFiles::kUnresolved | deferred_.size();
      deferred_.push_back(t.files[i].path);
    }
  }
  uint64_t deadline = context_->now_ns(context_) + kHeadersBudgetNs;
  out_.stale_files = 0;
  out_.synthesized_files = 0;
  const std::vector<FileLookup> found = LookUp(context_, names);
  ReadChangedAhead(t, asked, found);
  for (size_t at = 0; at < asked.size(); at++) {
    const size_t i = asked[at];
    const TemplateFile& file = t.files[i];
    const ppc_file_info& info = found[at].info;
    bool good = info.file != 0 && info.size == file.size;
    if (IsPackage(file) && info.file != 0) {
      numbers[i] = info.file;
      continue;
    }
    // A copied model has other times but the same contents.
    if (good && info.mtime_ns != file.mtime_ns && Known(file.fingerprint) &&
        context_->now_ns(context_) < deadline) {
      good = FingerprintOf(context_, file.path, info.size, nullptr) == file.fingerprint;
    }
    if (good) {
      numbers[i] = info.file;
    } else {
      out_.stale_files++;
    }
  }
  return numbers;
}

// Copied files' tables of contents are compared next.
void Preparer::ReadChangedAhead(const Template& t, const std::vector<size_t>& asked,
                                const std::vector<FileLookup>& found) const {
  std::vector<ModelSource::Info> changed;
  for (size_t at = 0; at < asked.size(); at++) {
    const TemplateFile& file = t.files[asked[at]];
    const ppc_file_info& info = found[at].info;
    const bool is_compared = info.file != 0 && info.size == file.size && Known(file.fingerprint) &&
                             info.mtime_ns != file.mtime_ns;
    if (is_compared) changed.push_back({file.path, info.size, info.mtime_ns, info.file});
  }
  MountSource source(context_);
  ReadTablesAhead(&source, changed);
}

// Takes what changed since from the headers.
bool Preparer::Adopt(Template* t) {
  std::vector<uint64_t> numbers = CheckFiles(*t);
  uint64_t total = 0;
  uint64_t stale = 0;
  for (size_t i = 0; i < numbers.size(); i++) {
    total += t->files[i].size;
    if (numbers[i] == 0) stale += t->files[i].size;
  }
  if (total == 0 || (stale * kStaleShare > total && config_.record != RecordMode::kNever)) {
    out_.reason = "the model changed: " + std::to_string(out_.stale_files) + " of " +
                  std::to_string(t->files.size()) + " files";
    return false;
  }
  // Single files that changed: their headers tell what will be read of them.
  for (uint32_t i = 0; i < numbers.size(); i++) {
    if (numbers[i] != 0) continue;
    const bool is_repaired = RepairFile(t, i);
    ppc_file_info info = {};
    const int rc = context_->file_info(context_, t->files[i].path.c_str(), &info);
    if (rc == 0 && is_repaired) numbers[i] = info.file;
    if (rc == -ENOENT && t->files[i].kind != FileKind::kSmall) missing_.insert(t->files[i].path);
  }
  if (out_.synthesized_files != 0) {
    if (std::string problem = Check(*t); !problem.empty()) {
      out_.reason = "the model changed: " + problem;
      return false;
    }
  }
  LeaveOutDoubles(*t, &numbers);
  out_.generation = std::max(out_.generation, t->generation);
  followed_ = std::move(*t);
  numbers_ = std::move(numbers);
  return true;
}

}  // namespace ppc::maio
