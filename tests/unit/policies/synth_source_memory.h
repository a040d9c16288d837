// SPDX-License-Identifier: Apache-2.0
// Model files in memory, for tests: heads of files, the rest reads as zeros.
#ifndef TESTS_UNIT_POLICIES_SYNTH_SOURCE_MEMORY_H_
#define TESTS_UNIT_POLICIES_SYNTH_SOURCE_MEMORY_H_

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "policies/maio/synth/synth.h"

namespace ppc::maio {

class MemorySource : public ModelSource {
 public:
  struct File {
    std::string head;
    uint64_t size = 0;
  };
  std::map<std::string, File> files;
  std::map<std::string, std::string> links;  // name -> file

  void Add(const std::string& path, const std::string& head, uint64_t more = 0) {
    files[path] = {head, head.size() + more};
  }

  int Stat(const std::string& path, Info* out) override {
    auto it = files.find(TargetOf(path));
    if (it == files.end()) return -ENOENT;
    *out = {it->first, it->second.size, 1};
    return 0;
  }
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override {
    auto it = files.find(TargetOf(path));
    if (it == files.end()) return -ENOENT;
    if (offset >= it->second.size) return 0;
    bytes = std::min<uint64_t>(bytes, it->second.size - offset);
    std::memset(out, 0, bytes);
    const std::string& head = it->second.head;
    if (offset < head.size())
      std::memcpy(out, head.data() + offset, std::min<uint64_t>(bytes, head.size() - offset));
    return static_cast<int64_t>(bytes);
  }
  int List(const std::string& path, std::vector<std::string>* names) override {
    std::string prefix = path.empty() ? "" : path + "/";
    std::set<std::string> found;
    const auto add = [&](const std::string& name) {
      if (name.rfind(prefix, 0) == 0)
        found.insert(name.substr(prefix.size(), name.find('/', prefix.size()) - prefix.size()));
    };
    for (const auto& [name, file] : files) add(name);
    for (const auto& [name, target] : links) add(name);
    if (found.empty()) return -ENOENT;
    names->assign(found.begin(), found.end());
    return 0;
  }

 private:
  const std::string& TargetOf(const std::string& path) const {
    const auto link = links.find(path);
    return link == links.end() ? path : link->second;
  }
};

// A safetensors header with its length.
inline std::string SafetensorsHead(const std::string& json) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; i++)
    out[static_cast<size_t>(i)] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  return out + json;
}

// A field of a protocol buffer, as ONNX has them.
inline std::string Field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (size_t n = bytes.size();; n >>= 7) {
    out += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    if (n <= 0x7f) break;
  }
  return out + bytes;
}

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_SYNTH_SOURCE_MEMORY_H_
