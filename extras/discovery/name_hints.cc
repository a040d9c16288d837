// SPDX-License-Identifier: Apache-2.0
#include "extras/discovery/name_hints.h"

#include <bit>
#include <utility>

namespace ppc {
namespace {

// places: a power of two.
size_t PlaceOf(uint64_t file, size_t places) {
  return static_cast<size_t>(file * 0x9e3779b97f4a7c15 >> (64 - std::countr_zero(places)));
}

}  // namespace

NameHints::Name* NameHints::Names::Add(uint64_t file) {
  places[PlaceOf(file, places.size())] = static_cast<uint32_t>(next);
  Name* const name = &names[next];
  next = (next + 1) % names.size();
  name->file = file;
  return name;
}

const NameHints::Name* NameHints::Names::Find(uint64_t file) const {
  if (names.empty()) return nullptr;
  const Name& name = names[places[PlaceOf(file, places.size())]];
  return name.file == file ? &name : nullptr;
}

const NameHints::Name* NameHints::Find(uint64_t file) const {
  const Name* const kept = kept_.Find(file);
  return kept != nullptr ? kept : noted_.Find(file);
}

void NameHints::Note(uint64_t file, uint64_t folder, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (noted_.names.empty()) {
    for (const auto& [names, most] : {std::pair(&noted_, kNoted), std::pair(&kept_, kKept)}) {
      names->names.resize(most);
      names->places.resize(8 * std::bit_ceil(most));  // sparse, so that few files share a place
    }
  }
  Name* const noted = noted_.Add(file);
  noted->folder = folder;
  noted->name.assign(name);  // reuses the previous name's memory
}

void NameHints::Keep(uint64_t file) {
  const std::lock_guard lock(mutex_);
  const Name* const noted = noted_.Find(file);
  if (noted == nullptr || kept_.Find(file) != nullptr) return;
  Name* const kept = kept_.Add(file);
  kept->folder = noted->folder;
  kept->name = noted->name;
}

std::string NameHints::PathOf(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  const Name* const name = Find(file);
  if (name == nullptr) return "";
  const auto folder = folders_.find(name->folder);
  return folder == folders_.end() ? "" : folder->second + name->name;
}

void NameHints::Learn(uint64_t file, const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Name* const name = Find(file);
  if (name == nullptr) return;
  const size_t base = path.rfind('/') + 1;  // 0: the file is in the root
  if (std::string_view(path).substr(base) != name->name) return;
  if (folders_.size() >= kFolders && !folders_.contains(name->folder))
    folders_.erase(folders_.begin());
  folders_[name->folder] = path.substr(0, base);
}

}  // namespace ppc
