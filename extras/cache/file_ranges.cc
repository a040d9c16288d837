// SPDX-License-Identifier: Apache-2.0
#include "extras/cache/file_ranges.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "daemon/base/unique_fd.h"
#include "extras/templates/template_store.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

constexpr size_t kReadBytes = 4 << 20;

Result<std::vector<FileRange>> RangesOfService(const Args& args) {
  const Result<std::string> mount = ReadMount(args);
  if (!mount) return mount.error();
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return id.error();
  const Result<maio::Template> t = LoadTemplate(args, *id);
  if (!t) return t.error();
  std::vector<FileRange> ranges;
  for (const maio::TemplateGroup& group : t->groups) {
    for (const maio::Extent& extent : group.extents) {
      ranges.push_back(FileRange{*mount + "/" + t->files[extent.file].path,
                                 extent.page * maio::kPage, extent.pages * maio::kPage});
    }
  }
  return ranges;
}

}  // namespace

Result<std::vector<std::string>> FilesBelow(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return PosixError(path, errno);
  if (!S_ISDIR(info.st_mode)) return std::vector<std::string>{path};
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) found.push_back(entry->path());
  }
  if (error) return Error{error.value(), path + ": " + error.message()};
  std::sort(found.begin(), found.end());
  std::vector<std::string> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (std::string& file : found) {
    if (stat(file.c_str(), &info) != 0) continue;
    if (seen.emplace(info.st_dev, info.st_ino).second) files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<FileRange>> RangesOf(const Args& args) {
  if (args.Has("--id") || args.Has("--param") || args.Has("--params")) {
    return RangesOfService(args);
  }
  if (args.operands.empty()) return Error{EINVAL, "which files? give PATH, or MNT with --id"};
  const Result<std::vector<std::string>> files = FilesBelow(args.operands[0]);
  if (!files) return files.error();
  std::vector<FileRange> ranges;
  for (const std::string& file : *files) ranges.push_back(FileRange{file, 0, 0});
  return ranges;
}

uint64_t BytesOf(const FileRange& range) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(range.path, error);
  if (error || size <= range.offset) return 0;
  const uint64_t rest = size - range.offset;
  return range.bytes == 0 ? rest : std::min(range.bytes, rest);
}

Result<uint64_t> WarmRange(const FileRange& range, uint64_t limit) {
  const UniqueFd fd(open(range.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.IsValid()) return PosixError(range.path, errno);
  struct stat info {};
  if (fstat(fd.Get(), &info) != 0) return PosixError(range.path, errno);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, range.path + " is not a regular file"};
  std::vector<char> buffer(kReadBytes);
  uint64_t done = 0;
  const uint64_t most = std::min(range.bytes == 0 ? UINT64_MAX : range.bytes, limit);
  while (done < most) {
    const ssize_t got = pread(fd.Get(), buffer.data(), std::min<uint64_t>(kReadBytes, most - done),
                              static_cast<off_t>(range.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError("read " + range.path, errno);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

Status DropRange(const FileRange& range) {
  const UniqueFd fd(open(range.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.IsValid()) return PosixError(range.path, errno);
  const int code = posix_fadvise(fd.Get(), static_cast<off_t>(range.offset),
                                 static_cast<off_t>(range.bytes), POSIX_FADV_DONTNEED);
  return code == 0 ? Ok() : Status(PosixError("drop " + range.path, code));
}

}  // namespace ppc::ctl
