// SPDX-License-Identifier: Apache-2.0
// Owns a temporary directory, removed with the object.
#ifndef PPC_SIM_TEMP_DIR_H_
#define PPC_SIM_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace ppc::sim {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ppc-sim-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_TEMP_DIR_H_
