// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/native_files.h"

#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kLeastUnlisted = 16ull << 20;
constexpr size_t kMostUnlisted = 1024;

}  // namespace

bool NativeFiles::Add(uint64_t file) {
  if (!files_.insert(file).second) return false;
  context_->file_native(context_, file, 1);
  return true;
}

void NativeFiles::NoteUnlisted(const miss_io& event) {
  if (!Add(event.file)) return;
  unlisted_bytes_ += event.file_bytes;
  const bool is_large = event.path != nullptr && event.file_bytes >= kLeastUnlisted;
  if (is_large && unlisted_.size() < kMostUnlisted) unlisted_.emplace_back(event.path);
  const FileKind kind = event.path != nullptr ? KindOfPath(event.path) : FileKind::kOther;
  has_new_model_files_ |= HasContents(kind);
}

void NativeFiles::Take(uint64_t file) {
  if (failed_.contains(file)) return;
  if (files_.erase(file) != 0) context_->file_native(context_, file, 0);
}

void NativeFiles::TakeAll() {
  for (const uint64_t file : files_) context_->file_native(context_, file, 0);
  files_.clear();
  failed_.clear();
}

}  // namespace ppc::maio
