// SPDX-License-Identifier: Apache-2.0
// Owns a temporary directory tree for tests: fake /sys and /proc.
#ifndef PPC_TESTS_UNIT_TEMP_TREE_H_
#define PPC_TESTS_UNIT_TEMP_TREE_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ppc {

class TempTree {
 public:
  explicit TempTree(const std::filesystem::path& base = std::filesystem::temp_directory_path()) {
    std::string name = (base / "ppc_test_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) root_ = name;
  }
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  const std::string& Root() const { return root_; }
  std::string Path(const std::string& path) const { return root_ + path; }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void Link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::filesystem::create_symlink(target, root_ + path);
  }

 private:
  std::string root_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_TEMP_TREE_H_
