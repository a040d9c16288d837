// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint directory: shards, index, configuration and tokenizer files.
// Threads: one writer per directory.
#include "tools/model/mkmodel/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "tools/model/common/content.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBufferBytes = 4 << 20;

// A file being written; Finish tells whether everything arrived.
class OutFile {
 public:
  static Result<OutFile> Create(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.IsValid()) return PosixError(path, errno);
    return OutFile(path, std::move(fd));
  }

  Status Write(const void* data, uint64_t bytes) {
    const Status written = WriteAll(fd_.Get(), data, bytes);
    if (!written.ok()) return Error{written.error().code, path_ + ": " + written.error().message};
    return Ok();
  }
  // Makes the rest of the file a hole.
  Status Extend(uint64_t bytes) {
    if (::ftruncate(fd_.Get(), static_cast<off_t>(bytes)) != 0) return PosixError(path_, errno);
    return Ok();
  }
  Status Finish() {
    if (::close(fd_.Release()) != 0) return PosixError(path_, errno);
    return Ok();
  }

 private:
  OutFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

// Decides where a file lives: in the directory itself, or as a blob with a symlink to it, as the
// Hugging Face hub client lays its cache out.
class Directory {
 public:
  static Result<Directory> Create(const ModelSpec& model, const WriteOptions& options) {
    Directory dir;
    dir.is_hf_cache_ = options.is_hf_cache;
    dir.seed_ = options.seed;
    dir.model_dir_ = options.out;
    std::error_code code;
    fs::create_directories(options.out, code);
    if (code) return Error{code.value(), options.out + ": " + code.message()};
    if (!options.is_hf_cache) return dir;
    std::string repo = model.repo;
    repo.replace(repo.find('/'), 1, "--");
    const std::string root = options.out + "/models--" + repo;
    const std::string revision = dir.HexName("revision", 40);
    dir.blobs_ = root + "/blobs";
    dir.model_dir_ = root + "/snapshots/" + revision;
    for (const std::string& path : {dir.blobs_, root + "/refs", dir.model_dir_}) {
      fs::create_directories(path, code);
      if (code) return Error{code.value(), path + ": " + code.message()};
    }
    Result<OutFile> ref = OutFile::Create(root + "/refs/main");
    if (!ref.ok()) return ref.error();
    const Status written = ref->Write(revision.data(), revision.size());
    if (!written.ok()) return written.error();
    return dir;
  }

  // hash_digits: 64 for what the hub keeps by SHA-256 (shards), 40 for small files.
  Result<OutFile> Add(const std::string& name, size_t hash_digits) {
    if (!is_hf_cache_) return OutFile::Create(model_dir_ + "/" + name);
    const std::string blob = HexName(name, hash_digits);
    const std::string link = model_dir_ + "/" + name;
    ::unlink(link.c_str());
    if (::symlink(("../../blobs/" + blob).c_str(), link.c_str()) != 0)
      return PosixError(link, errno);
    return OutFile::Create(blobs_ + "/" + blob);
  }

  const std::string& model_dir() const { return model_dir_; }

 private:
  // Stands for the content hash: as long, and as stable, but computed from the name.
  std::string HexName(const std::string& name, size_t digits) const {
    uint64_t key = FileKey(seed_, 0x626c6f62);
    for (const char c : name) key = MixWord(key ^ static_cast<uint8_t>(c));
    std::string out;
    for (uint64_t i = 0; out.size() < digits; ++i)
      out += "0123456789abcdef"[ContentWord(key, i) >> 60];
    return out;
  }

  bool is_hf_cache_ = false;
  uint64_t seed_ = 0;
  std::string model_dir_, blobs_;
};

Status WriteText(Directory* dir, const std::string& name, const std::string& text) {
  Result<OutFile> file = dir->Add(name, 40);
  if (!file.ok()) return file.error();
  Status written = file->Write(text.data(), text.size());
  return written.ok() ? file->Finish() : written;
}

// buffer: nullptr leaves the tensors out.
Status WriteShard(Directory* dir, const Shard& shard, uint64_t key, uint8_t* buffer) {
  Result<OutFile> file = dir->Add(shard.file, 64);
  if (!file.ok()) return file.error();
  const std::string header = shard.Header();
  Status written = file->Write(header.data(), header.size());
  const uint64_t data_bytes = shard.data_bytes();
  if (buffer == nullptr) {
    if (written.ok()) written = file->Extend(header.size() + data_bytes);
    return written.ok() ? file->Finish() : written;
  }
  for (uint64_t at = 0; written.ok() && at < data_bytes; at += kBufferBytes) {
    const uint64_t bytes = std::min(kBufferBytes, data_bytes - at);
    FillContent(key, at / 8, buffer, bytes);
    written = file->Write(buffer, bytes);
  }
  return written.ok() ? file->Finish() : written;
}

Status WriteSmallFiles(Directory* dir, const ModelSpec& scaled, const std::vector<Shard>& shards,
                       const WriteOptions& options) {
  const std::string generation = "{\n  \"do_sample\": true,\n  \"temperature\": 0.7\n}\n";
  const std::string tokenizer_config =
      "{\n  \"model_max_length\": 131072,\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
  const uint64_t tokenizer_bytes = scaled.tokenizer_bytes / options.scale;
  for (const auto& [name, text] : std::initializer_list<std::pair<const char*, std::string>>{
           {"config.json", ConfigJson(scaled)},
           {"generation_config.json", generation},
           {"model.safetensors.index.json", IndexJson(shards)},
           {"tokenizer.json", TokenizerJson(options.seed, tokenizer_bytes)},
           {"tokenizer_config.json", tokenizer_config}}) {
    Status written = WriteText(dir, name, text);
    if (!written.ok()) return written;
  }
  return Ok();
}

}  // namespace

Result<WrittenModel> WriteModel(const ModelSpec& model, const WriteOptions& options) {
  const std::vector<Shard> shards = ShardModel(model, options.scale);
  WrittenModel written;
  for (const Shard& shard : shards) {
    written.tensor_bytes += shard.data_bytes();
    written.file_bytes += shard.Header().size() + shard.data_bytes();
  }
  Result<Directory> dir = Directory::Create(model, options);
  if (!dir.ok()) return dir.error();
  written.model_dir = dir.value().model_dir();
  struct statvfs space {};
  if (!options.is_sparse && ::statvfs(options.out.c_str(), &space) == 0 &&
      space.f_bavail * space.f_frsize < written.file_bytes)
    return Error{ENOSPC, options.out + ": the model needs " + std::to_string(written.file_bytes) +
                             " bytes, " + std::to_string(space.f_bavail * space.f_frsize) +
                             " are free; choose a larger --scale"};
  const auto buffer = options.is_sparse ? nullptr : std::make_unique<uint8_t[]>(kBufferBytes);
  uint64_t done = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Status shard =
        WriteShard(&dir.value(), shards[i], FileKey(options.seed, i), buffer.get());
    if (!shard.ok()) return shard.error();
    done += shards[i].Header().size() + shards[i].data_bytes();
    if (options.progress) options.progress(shards[i].file, done, written.file_bytes);
  }
  const Status small =
      WriteSmallFiles(&dir.value(), ScaleModel(model, options.scale), shards, options);
  if (!small.ok()) return small.error();
  return written;
}

}  // namespace ppc::bench
