// SPDX-License-Identifier: Apache-2.0
// Owns a store and two roots of an engine, for tests of artifacts.
#ifndef PPC_EXTRAS_ARTIFACT_TESTS_FIXTURE_H_
#define PPC_EXTRAS_ARTIFACT_TESTS_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "extras/artifact/capture.h"
#include "extras/artifact/files_at.h"
#include "extras/artifact/objects.h"
#include "extras/artifact/restore.h"
#include "extras/artifact/store.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::artifact {

namespace fs = std::filesystem;

inline std::string TextAt(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Data that is not small, not uniform, and compresses by half.
inline std::string Text(size_t bytes, unsigned seed = 1) {
  std::string text(bytes, '\0');
  for (char& c : text) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>('a' + (seed >> 28));
  }
  return text;
}

class ArtifactTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"/engine/triton", "/engine/vllm"}) {
      fs::create_directories(tree_.Path(name));
    }
    place_.directory = tree_.Path("/store");
    roots_ = {{"triton", tree_.Path("/engine/triton")}, {"vllm", tree_.Path("/engine/vllm")}};
  }

  void Fill() {
    tree_.Write("/engine/triton/ab/kernel.cubin", Text(700'000));
    tree_.Write("/engine/triton/ab/kernel.json", "{}");
    tree_.Write("/engine/triton/cd/empty", "");
    tree_.Write("/engine/vllm/plan/a b\n\xff.json", "plan");
    tree_.Write("/engine/vllm/copy", Text(700'000));
    tree_.Link("/engine/vllm/plan/latest", "../copy");
    fs::create_directories(tree_.Path("/engine/vllm/nothing/at all"));
    chmod(tree_.Path("/engine/triton/ab/kernel.json").c_str(), 0640);
    chmod(tree_.Path("/engine/vllm/nothing").c_str(), 0750);
    // A time long ago, by which restored files are recognised.
    const timespec times[2] = {{1'700'000'000, 123'456'789}, {1'700'000'000, 123'456'789}};
    for (const char* path : {"/engine/triton/ab/kernel.cubin", "/engine/vllm/plan/latest",
                             "/engine/vllm/nothing", "/engine/vllm/copy"}) {
      utimensat(AT_FDCWD, tree_.Path(path).c_str(), times, AT_SYMLINK_NOFOLLOW);
    }
  }
  void Empty() {
    fs::remove_all(tree_.Path("/engine"));
    for (const Root& root : roots_) fs::create_directories(root.directory);
  }

  // Fails the test if the object is missing.
  Store Open(Store::Use use = Store::Use::kWrite) { return Value(Store::Open(place_, use)); }
  Result<Captured> TryCapture(Compress compress = Compress::kAuto) {
    Result<Store> store = Store::Open(place_, Store::Use::kWrite);
    if (!store) return store.error();
    CaptureRequest request;
    request.service_id = "svc1";
    request.key = key_;
    request.roots = roots_;
    request.compress = compress;
    request.max_bytes = max_bytes_;
    return Capture(*store, request);
  }
  Captured MustCapture(Compress compress = Compress::kAuto) { return Value(TryCapture(compress)); }
  Result<Restored> TryRestore() {
    Result<Store> store = Store::Open(place_, Store::Use::kRead);
    if (!store) return store.error();
    Result<Match> match = FindBundle(*store, "svc1", key_);
    if (!match) return match.error();
    if (!match->manifest) return Error{ENOENT, "no bundle"};
    return Restore(*store, *match->manifest, roots_);
  }
  Restored MustRestore() { return Value(TryRestore()); }

  std::string OwnStore() const { return place_.directory + "/" + std::to_string(geteuid()); }
  std::string ManifestPath() const { return OwnStore() + "/bundles/svc1/" + KeyIdOf(key_); }

  // Names, kinds, modes, times, targets and bytes of everything below the roots, a line each.
  std::string Picture() const {
    std::ostringstream out;
    for (const Root& root : roots_) {
      std::vector<fs::path> paths;
      for (const auto& entry : fs::recursive_directory_iterator(root.directory)) {
        paths.push_back(entry.path());
      }
      std::sort(paths.begin(), paths.end());
      for (const fs::path& path : paths) {
        struct stat info {};
        lstat(path.c_str(), &info);
        out << root.name << " " << path.lexically_relative(root.directory).string() << " "
            << std::oct << info.st_mode << std::dec << " " << ModifiedNs(info) << " ";
        if (S_ISLNK(info.st_mode)) out << fs::read_symlink(path).string();
        if (S_ISREG(info.st_mode)) out << std::hash<std::string>()(TextAt(path.string()));
        out << "\n";
      }
    }
    return out.str();
  }
  size_t FilesBelow(const std::string& path) const {
    size_t count = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      if (!entry->is_directory()) ++count;
    }
    return count;
  }

  // In memory, where syncing does not wait for other writes of this machine.
  TempTree tree_{access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path()};
  Store::Place place_;
  std::vector<Root> roots_;
  Key key_ = {{"gpu", "NVIDIA H200"}, {"driver", "nvidia 550.54.14"}};
  uint64_t max_bytes_ = UINT64_MAX;
};

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_TESTS_FIXTURE_H_
