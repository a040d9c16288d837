// SPDX-License-Identifier: Apache-2.0
//
// A directory as a store: <root>/<first two characters>/<name>.ppct, as without a store.
//
// Generations without locks, on NFS too: the value of generation N is also <name>.ppct.g<N>, made
// by link() of a synced temporary file, which exactly one of several writers can do; the others
// find it there whole, and a writer that dies leaves a value, not a lock.  The highest one is the
// present value; <name>.ppct is renamed from it for readers that know nothing of generations, by
// the writer or by the next one.  Only lower ones are removed, so a writer that was late, whose
// number had gone already, finds a higher one beside its own, takes its own back and says -ESTALE.
// A link() that succeeded on the server but whose answer was lost shows as a second link of the
// temporary file, once the server is asked for it.
//
// A directory's contents are what the server has whenever it is opened; a name in it that was not
// there is taken for missing until then, so the store's directory is opened before its
// subdirectories are believed to be missing.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <set>

#include "policies/maio/template/store.h"
#include "policies/maio/template/template_files.h"
#include "policies/maio/template/template_format.h"

namespace ppc::maio {
namespace {

constexpr std::string_view kSuffix = ".ppct";
constexpr std::string_view kGenerationMark = ".ppct.g";
constexpr size_t kGenerationDigits = 16;
constexpr size_t kGenerationAt = 56;  // in the preamble
constexpr int kTries = 8;

// Generation of "<name>.ppct.g<16 hexadecimal digits>"; *name: its name.
std::optional<uint64_t> GenerationOf(const std::string& file, std::string* name) {
  const size_t mark = file.rfind(kGenerationMark);
  if (mark == std::string::npos || file.size() != mark + kGenerationMark.size() + kGenerationDigits)
    return std::nullopt;
  const char* digits = file.data() + mark + kGenerationMark.size();
  uint64_t generation = 0;
  const auto [end, problem] = std::from_chars(digits, digits + kGenerationDigits, generation, 16);
  if (problem != std::errc() || end != digits + kGenerationDigits) return std::nullopt;
  *name = file.substr(0, mark);
  return generation;
}

// As the server has it now, whatever is cached here.
bool HasTwoLinks(const std::string& path) {
  struct statx st = {};
  return statx(AT_FDCWD, path.c_str(), AT_STATX_FORCE_SYNC, STATX_NLINK, &st) == 0 &&
         st.stx_nlink == 2;
}

class DirectoryTemplates : public TemplateStore {
 public:
  explicit DirectoryTemplates(std::string root) : root_(std::move(root)) {}

  int List(std::vector<std::string>* names, std::string* error) override {
    std::vector<std::string> buckets;
    std::set<std::string> found;
    if (const int rc = ListDirectory(root_, &buckets); rc != 0 && rc != ENOENT)
      return FailOn(rc, root_, error);
    for (const std::string& bucket : buckets) {
      std::vector<std::string> files;
      if (bucket.size() != 2 || ListDirectory(root_ + "/" + bucket, &files) != 0) continue;
      for (const std::string& file : files) {
        std::string name;
        if (!GenerationOf(file, &name) && file.ends_with(kSuffix))
          name = file.substr(0, file.size() - kSuffix.size());
        if (ValidStoreName(name) && name.starts_with(bucket)) found.insert(name);
      }
    }
    names->assign(found.begin(), found.end());
    return 0;
  }

  int Get(const std::string& name, Value* out, std::string* error) override {
    if (!ValidStoreName(name)) return NoName(name, error);
    for (int again = 0; again < kTries; again++) {
      const Present present = Look(name);
      if (present.error != 0) return FailOn(present.error, BucketOf(name), error);
      if (present.highest() == 0 && !present.has_file) return FailOn(ENOENT, PathOf(name), error);
      const std::string path = present.generation > present.file_generation
                                   ? GenerationPath(name, present.generation)
                                   : PathOf(name);
      error->clear();
      const int rc = ReadTemplateFile(path, &out->bytes, error);
      // It has just been replaced.
      if (rc == ENOENT || rc == ESTALE) continue;
      out->generation = present.highest();
      return rc == 0 ? 0 : FailOn(rc, path, error);
    }
    return FailOn(EAGAIN, PathOf(name), error);
  }

  int Put(const std::string& name, const std::vector<uint8_t>& bytes, uint64_t expected,
          std::string* error) override {
    if (!ValidStoreName(name)) return NoName(name, error);
    for (const std::string& dir : {root_, BucketOf(name)}) {
      if (const int rc = EnsureDirectory(dir); rc != 0) return FailOn(rc, dir, error);
    }
    Present present = Look(name);
    if (present.error != 0) return FailOn(present.error, BucketOf(name), error);
    if (present.highest() != expected) return Stale(name, present.highest(), error);
    SweepTemporaries(BucketOf(name));
    std::string temporary;
    int rc = WriteTemporary(PathOf(name), bytes, &temporary);
    if (rc != 0) return FailOn(rc, PathOf(name), error);
    const uint64_t generation = expected + 1;
    const std::string claim = GenerationPath(name, generation);
    rc = link(temporary.c_str(), claim.c_str()) == 0 ? 0 : errno;
    if (rc != 0 && HasTwoLinks(temporary)) rc = 0;
    if (rc == EEXIST) {
      unlink(temporary.c_str());
      Publish(name);  // its writer may be gone
      return Stale(name, generation, error);
    }
    if (rc != 0) {
      unlink(temporary.c_str());
      return FailOn(rc, claim, error);
    }
    present = Look(name, generation);
    const uint64_t of_file =
        present.file_generation == generation ? expected : present.file_generation;
    if (std::max(present.generation, of_file) != expected) {
      unlink(claim.c_str());
      unlink(temporary.c_str());
      return Stale(name, present.highest(), error);
    }
    rc = rename(temporary.c_str(), PathOf(name).c_str()) == 0 ? 0 : errno;
    unlink(temporary.c_str());  // of two names of one file rename() takes neither away
    Publish(name);
    const int synced = SyncDirectory(BucketOf(name));
    if (rc != 0 || synced != 0) return FailOn(rc != 0 ? rc : synced, PathOf(name), error);
    for (const uint64_t old : present.generations) {
      if (old < generation) unlink(GenerationPath(name, old).c_str());
    }
    return 0;
  }

  int Remove(const std::string& name, std::string* error) override {
    if (!ValidStoreName(name)) return NoName(name, error);
    int removed = 0;
    int rc = unlink(PathOf(name).c_str()) == 0 ? 0 : errno;
    if (rc == 0) removed++;
    for (const uint64_t generation : Look(name).generations) {
      if (unlink(GenerationPath(name, generation).c_str()) == 0) {
        removed++;
      } else if (errno != ENOENT) {
        rc = errno;
      }
    }
    if (rc == ENOENT && removed != 0) rc = 0;
    return rc == 0 ? 0 : FailOn(rc, PathOf(name), error);
  }

 private:
  struct Present {
    int error = 0;
    std::vector<uint64_t> generations;  // that have files of their own
    uint64_t generation = 0;            // the highest of them
    bool has_file = false;
    uint64_t file_generation = 0;  // of the file without one in its name
    uint64_t highest() const { return std::max(generation, file_generation); }
  };

  std::string BucketOf(const std::string& name) const { return root_ + "/" + name.substr(0, 2); }
  std::string PathOf(const std::string& name) const {
    return BucketOf(name) + "/" + name + std::string(kSuffix);
  }
  std::string GenerationPath(const std::string& name, uint64_t generation) const {
    char digits[kGenerationDigits + 1];
    std::snprintf(digits, sizeof(digits), "%016" PRIx64, generation);
    return BucketOf(name) + "/" + name + std::string(kGenerationMark) + digits;
  }

  static bool LooksAnew(const std::string& directory) {
    const Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd.get() >= 0;
  }

  // All but generation `own`.
  Present Look(const std::string& name, uint64_t own = 0) const {
    Present present;
    std::vector<std::string> files;
    int rc = ListDirectory(BucketOf(name), &files);
    if (rc == ENOENT && LooksAnew(root_)) rc = ListDirectory(BucketOf(name), &files);
    if (rc != 0 && rc != ENOENT) present.error = rc;
    for (const std::string& file : files) {
      std::string of;
      const std::optional<uint64_t> generation = GenerationOf(file, &of);
      if (generation && of == name && *generation != own) {
        present.generations.push_back(*generation);
        present.generation = std::max(present.generation, *generation);
      }
    }
    std::vector<uint8_t> head;
    std::string ignored;
    // One that was replaced while it was read is there again.
    for (int again = 0; again < kTries; again++) {
      rc = ReadTemplateFile(PathOf(name), &head, &ignored, kPreambleBytes);
      if (rc != ESTALE) break;
    }
    // What is no template at all is replaced by one.
    if (rc != 0 && rc != ENOENT && rc != EINVAL && present.error == 0) present.error = rc;
    if (rc != 0) return present;
    present.has_file = true;
    if (head.size() == kPreambleBytes)
      present.file_generation =
          ByteReader(std::span(head).subspan(kGenerationAt)).Fixed<uint64_t>();
    return present;
  }

  // Makes <name>.ppct the highest generation, whoever put that.
  void Publish(const std::string& name) const {
    for (int again = 0; again < kTries; again++) {
      const Present present = Look(name);
      if (present.generation <= present.file_generation) return;
      std::string temporary;
      if (ReserveTemporary(PathOf(name), &temporary) != 0) return;
      const std::string from = GenerationPath(name, present.generation);
      if (link(from.c_str(), temporary.c_str()) != 0) continue;
      if (rename(temporary.c_str(), PathOf(name).c_str()) != 0) unlink(temporary.c_str());
      unlink(temporary.c_str());
    }
  }

  static int NoName(const std::string& name, std::string* error) {
    *error = "'" + name + "' is no name of a template";
    return -EINVAL;
  }
  int Stale(const std::string& name, uint64_t present, std::string* error) const {
    *error =
        PathOf(name) + ": generation " + std::to_string(present) + " is there now; read it again";
    return -ESTALE;
  }
  static int FailOn(int code, const std::string& path, std::string* error) {
    if (error->empty() || code == ENOENT)
      *error = "template store " + path + ": " + std::strerror(code);
    return -code;
  }

  std::string root_;
};

}  // namespace

std::unique_ptr<TemplateStore> DirectoryStore(const std::string& root) {
  return std::make_unique<DirectoryTemplates>(root);
}

}  // namespace ppc::maio
