// SPDX-License-Identifier: Apache-2.0
//
// The files that are left to the kernel's read-ahead, which serves them better
// than nothing: those that the template does not have, and those of a group that
// lost it, until it is found again.
#ifndef POLICIES_MAIO_FOLLOW_NATIVE_FILES_H_
#define POLICIES_MAIO_FOLLOW_NATIVE_FILES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

struct miss_io;
struct ppc_context;

namespace ppc::maio {

class NativeFiles {
 public:
  explicit NativeFiles(const ppc_context* context) : context_(context) {}

  // Of a miss on a file that the template does not have.
  void NoteUnlisted(const miss_io& event);
  void Leave(uint64_t file) { (void)Add(file); }
  // It cannot be read: as Leave, until TakeAll.
  void Fail(uint64_t file) {
    (void)Add(file);
    failed_.insert(file);
  }
  void Take(uint64_t file);
  void TakeAll();

  bool empty() const { return files_.empty(); }
  // Of these files the large ones, for a template that is to have them; not too many.
  const std::vector<std::string>& unlisted() const { return unlisted_; }
  // Bytes of the files that the template does not have.
  uint64_t unlisted_bytes() const { return unlisted_bytes_; }
  // Some of them are a model's: a draft model, an adapter.
  bool has_new_model_files() const { return has_new_model_files_; }

 private:
  // False: it was left before.
  bool Add(uint64_t file);

  const ppc_context* const context_;
  std::set<uint64_t> files_;
  std::vector<std::string> unlisted_;
  std::set<uint64_t> failed_;
  uint64_t unlisted_bytes_ = 0;
  bool has_new_model_files_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_NATIVE_FILES_H_
