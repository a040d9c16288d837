// SPDX-License-Identifier: Apache-2.0
// A checkpoint directory as a loader finds it: its shards in natural order and its small files.
// Threads: free functions without state.
#include "tools/model/common/model_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "daemon/base/files.h"
#include "daemon/base/json.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSuffix[] = ".safetensors";
// Larger files beside the shards (other weights, documents) are not read by loaders.
constexpr uint64_t kSmallFileBytes = 32 << 20;

bool IsShardName(const std::string& name) {
  return name.size() > sizeof kSuffix && name.ends_with(kSuffix);
}

Error UnusableEntry(const std::string& index, const std::string& tensor) {
  return Error{EBADMSG, index + ": tensor '" + tensor + "' is mapped to no file name"};
}

Error MissingShard(const std::string& dir, const std::string& name) {
  return Error{ENOENT, dir + ": shard '" + name +
                           "' is missing though the index lists it; download it again"};
}

Result<std::vector<std::string>> ShardsOfIndex(const std::string& path) {
  Result<std::string> text = ReadFile(path, size_t{1} << 30);
  if (!text.ok()) return text.error();
  Result<Json> index = ParseJsonObject(*text, path);
  if (!index.ok()) return index.error();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty())
    return Error{EBADMSG, path + ": has no weight_map"};
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) return UnusableEntry(path, tensor);
    names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace

Result<ModelDir> OpenModelDir(const std::string& path) {
  ModelDir dir;
  dir.path = path;
  std::error_code code;
  bool has_index = false;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    std::error_code stat_code;
    if (IsShardName(name)) {
      dir.shards.push_back(name);
    } else if (it->is_regular_file(stat_code) && it->file_size(stat_code) <= kSmallFileBytes) {
      dir.small_files.push_back(name);
      has_index |= name == kIndexName;
    }
  }
  if (code) return Error{code.value(), path + ": " + code.message()};
  std::sort(dir.small_files.begin(), dir.small_files.end());
  std::sort(dir.shards.begin(), dir.shards.end());
  if (has_index) {
    Result<std::vector<std::string>> listed = ShardsOfIndex(path + "/" + kIndexName);
    if (!listed.ok()) return listed.error();
    for (const std::string& name : *listed)
      if (!std::binary_search(dir.shards.begin(), dir.shards.end(), name))
        return MissingShard(path, name);
    dir.shards = std::move(*listed);
  }
  if (dir.shards.empty())
    return Error{ENOENT, path + ": no *.safetensors file in it; give the model's directory"};
  return dir;
}

Result<ShardHeader> ReadHeader(int fd, const std::string& what) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return PosixError(what, errno);
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  uint8_t first8[8];
  if (::pread(fd, first8, 8, 0) != 8)
    return Error{EBADMSG, what + ": shorter than 8 bytes; not a safetensors file?"};
  Result<uint64_t> length = ParseHeaderLength(first8, file_bytes, what);
  if (!length.ok()) return length.error();
  std::string text(*length, '\0');
  for (uint64_t done = 0; done < text.size();) {
    const ssize_t got =
        ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(8 + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return PosixError(what, got < 0 ? errno : EIO);
    done += static_cast<uint64_t>(got);
  }
  return ParseHeader(text, file_bytes, what);
}

}  // namespace ppc::bench
