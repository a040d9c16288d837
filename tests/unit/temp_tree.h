// SPDX-License-Identifier: Apache-2.0
// Owns a temporary directory tree for tests: fake /sys and /proc.
#ifndef PPC_TESTS_UNIT_TEMP_TREE_H_
#define PPC_TESTS_UNIT_TEMP_TREE_H_

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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
  std::string Read(const std::string& path) const {
    std::ifstream file(root_ + path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A process that lives: /proc/PID/stat, begun so many ticks of the clock after the boot.
  void WriteStat(int pid, int parent = 1, int group = 1, uint64_t ticks = 7) const {
    const std::string number = std::to_string(pid);
    Write("/proc/" + number + "/stat",
          number + " (a b) S " + std::to_string(parent) + " " + std::to_string(group) +
              " 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " + std::to_string(ticks) + " 0\n");
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
