// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/inode_table.h"

#include <algorithm>

namespace ppc {
namespace {

constexpr size_t kWorthCompacting = 64 << 10;  // bytes of names of removed files

// The index of a value in a short list; adds a new value.
template <typename T>
uint16_t PlaceOf(std::vector<T>* list, T value) {
  const auto found = std::find(list->begin(), list->end(), value);
  const auto place = static_cast<uint16_t>(found - list->begin());
  if (found == list->end()) list->push_back(value);
  return place;
}

}  // namespace

uint64_t InodeTable::NumberOf(dev_t dev, ino_t ino) const {
  const auto found = by_stat_.find(Stat{dev, ino});
  return found == by_stat_.end() ? 0 : *found;
}

uint32_t InodeTable::AddName(std::string_view name) {
  const auto at = static_cast<uint32_t>(names_.size());
  names_.append(name).push_back('\0');
  return at;
}

void InodeTable::DropName(Row* row) {
  dead_bytes_ += std::string_view(names_.c_str() + row->name_at).size() + 1;
  row->name_at = kNoName;
  if (dead_bytes_ < kWorthCompacting || dead_bytes_ < names_.size() / 2) return;
  const std::string before = std::exchange(names_, {});
  dead_bytes_ = 0;
  for (Row& other : files_) {
    if (other.name_at != kNoName) other.name_at = AddName(before.c_str() + other.name_at);
  }
}

uint64_t InodeTable::Add(const File& file) {
  files_.push_back(Row{.ino = file.ino, .dev = PlaceOf(&devs_, file.dev)});
  const uint64_t number = files_.size();
  by_stat_.insert(static_cast<uint32_t>(number));
  Change(number, file);
  return number;
}

void InodeTable::Change(uint64_t number, const File& file) {
  Row& row = files_[number - 1];
  const std::string name(file.name);  // a copy: it may point into names_
  if (row.name_at != kNoName) DropName(&row);
  row.name_at = AddName(name);
  row.parent = file.parent;
  row.key_ino = file.key.ino;
  row.subvolume = file.key.subvolume;
  row.key_dev = PlaceOf(&key_devs_, file.key.dev);
}

void InodeTable::Remove(uint64_t number) {
  by_stat_.erase(static_cast<uint32_t>(number));
  DropName(&files_[number - 1]);
}

std::optional<InodeTable::File> InodeTable::Get(uint64_t number) const {
  if (number == 0 || number > files_.size()) return std::nullopt;
  const Row& row = files_[number - 1];
  if (row.name_at == kNoName) return std::nullopt;
  return File{.parent = row.parent,
              .name = names_.c_str() + row.name_at,
              .dev = devs_[row.dev],
              .ino = row.ino,
              .key = {row.key_ino, key_devs_[row.key_dev], row.subvolume}};
}

}  // namespace ppc
