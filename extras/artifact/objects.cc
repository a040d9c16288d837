// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/objects.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

constexpr size_t kPiece = 256 << 10;
constexpr int kLevel = 3;

struct FreeZstd {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Status Stopped() { return Error{ECANCELED, "stopped"}; }

// A piece of `fd`; 0 at its end, negative errno.
ssize_t ReadPiece(int fd, std::vector<char>& piece) {
  size_t filled = 0;
  while (filled < piece.size()) {
    const ssize_t got = read(fd, piece.data() + filled, piece.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(filled);
}

Status WriteOut(int fd, const char* data, size_t bytes) {
  return fd < 0 ? Ok() : WriteAll(fd, data, bytes);
}

// Whether compression shrinks the beginning of a file by at least a twentieth.
bool IsWorthIt(const std::vector<char>& piece, size_t bytes) {
  std::vector<char> packed(ZSTD_compressBound(bytes));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), piece.data(), bytes, kLevel);
  return ZSTD_isError(size) == 0 && size + bytes / 20 < bytes;
}

// Hashes data on its way, and compresses it if asked to.
class Packer {
 public:
  explicit Packer(int target) : target_(target), out_(ZSTD_CStreamOutSize()) {}

  void Pack() {
    context_.reset(ZSTD_createCCtx());
    if (context_) ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
  }
  Form form() const { return context_ ? Form::kZstd : Form::kRaw; }

  Status Take(const char* data, size_t bytes) {
    digest_.Update({data, bytes});
    return context_ ? Compressed(data, bytes, ZSTD_e_continue) : WriteOut(target_, data, bytes);
  }
  Status Finish() { return context_ ? Compressed(nullptr, 0, ZSTD_e_end) : Ok(); }
  std::string Digest() { return digest_.Hex(); }

 private:
  Status Compressed(const char* data, size_t bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{data, bytes, 0};
    while (true) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const size_t left = ZSTD_compressStream2(context_.get(), &out, &in, directive);
      if (ZSTD_isError(left) != 0)
        return Error{EIO, std::string("zstd: ") + ZSTD_getErrorName(left)};
      if (Status status = WriteOut(target_, out_.data(), out.pos); !status) return status;
      if (directive == ZSTD_e_end ? left == 0 : in.pos == in.size) return Ok();
    }
  }

  const int target_;
  std::vector<char> out_;
  std::unique_ptr<ZSTD_CCtx, FreeZstd> context_;
  Sha256 digest_;
};

// An error of the source, not of the target.
Error Unreadable(const Entry& entry, int code) {
  return Error{EBADMSG,
               PosixError("object " + entry.digest + " of '" + entry.path + "'", code).message};
}

// Checks an object's data: no more bytes than its size, and the right digest.
class Checker {
 public:
  Checker(const Entry& entry, int target) : entry_(entry), target_(target) {}

  Status Take(const char* data, size_t bytes) {
    if (bytes > entry_.size - size_) return Damaged();
    size_ += bytes;
    digest_.Update({data, bytes});
    return WriteOut(target_, data, bytes);
  }
  Status Finish() {
    return size_ == entry_.size && digest_.Hex() == entry_.digest ? Ok() : Damaged();
  }

  Status Unreadable(int code) const { return artifact::Unreadable(entry_, code); }
  Status Damaged() const {
    return Error{EBADMSG, "object " + entry_.digest + " of '" + entry_.path + "' is damaged"};
  }

 private:
  const Entry& entry_;
  const int target_;
  uint64_t size_ = 0;
  Sha256 digest_;
};

Status Unpack(int object, Checker& checker, const std::stop_token& stop) {
  const std::unique_ptr<ZSTD_DCtx, FreeZstd> context(ZSTD_createDCtx());
  std::vector<char> piece(ZSTD_DStreamInSize());
  std::vector<char> out_bytes(ZSTD_DStreamOutSize());
  size_t left = 1;  // 0 at the end of a frame
  while (!stop.stop_requested()) {
    const ssize_t got = ReadPiece(object, piece);
    if (got < 0) return checker.Unreadable(static_cast<int>(-got));
    if (got == 0) return left == 0 ? Ok() : checker.Damaged();
    ZSTD_inBuffer in{piece.data(), static_cast<size_t>(got), 0};
    bool is_full = false;  // the output buffer is full: more may follow
    while (in.pos < in.size || is_full) {
      ZSTD_outBuffer out{out_bytes.data(), out_bytes.size(), 0};
      left = ZSTD_decompressStream(context.get(), &out, &in);
      if (ZSTD_isError(left) != 0) return checker.Damaged();
      if (Status status = checker.Take(out_bytes.data(), out.pos); !status) return status;
      is_full = out.pos == out.size && left != 0;
    }
  }
  return Stopped();
}

Status Copy(int object, Checker& checker, const std::stop_token& stop) {
  std::vector<char> piece(kPiece);
  while (!stop.stop_requested()) {
    const ssize_t got = ReadPiece(object, piece);
    if (got < 0) return checker.Unreadable(static_cast<int>(-got));
    if (got == 0) return Ok();
    if (Status status = checker.Take(piece.data(), static_cast<size_t>(got)); !status)
      return status;
  }
  return Stopped();
}

}  // namespace

StagedObjects::~StagedObjects() {
  for (const auto& [name, staged] : staged_) unlinkat(store_.fd(), staged.c_str(), 0);
}

Status StagedObjects::Add(int fd, uint64_t size, const std::stop_token& stop, Entry* entry) {
  const std::string staged = "staging/" + RandomName();
  const UniqueFd target(openat(store_.fd(), staged.c_str(),
                               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!target.IsValid()) return store_.Failure("create", errno);
  const auto discard = [&] { unlinkat(store_.fd(), staged.c_str(), 0); };
  if (Status status = Fill(fd, target.Get(), size, stop, entry); !status) {
    discard();
    return status;
  }
  const std::string name = Store::ObjectPath(*entry);
  const bool is_known = staged_.contains(name) || store_.Claim(name);
  object_directories_.insert(name.substr(0, name.rfind('/')));
  if (is_known) {
    discard();
    return Ok();
  }
  // Starts writeback of all objects early, so that the later syncs are short.
  sync_file_range(target.Get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  struct stat info {};
  if (fstat(target.Get(), &info) == 0) stored_bytes_ += static_cast<uint64_t>(info.st_size);
  staged_.emplace(name, staged);
  return Ok();
}

Status StagedObjects::Fill(int source, int target, uint64_t size, const std::stop_token& stop,
                           Entry* entry) const {
  Packer packer(target);
  int from = source;
  bool is_cloned = false;
  if (compress_ == Compress::kAuto && ioctl(target, FICLONE, source) == 0) {
    is_cloned = true;
    from = target;  // read the clone, which later writes do not change
  } else if (lseek(source, 0, SEEK_SET) != 0) {
    return PosixError("seek", errno);
  }
  Packer hasher(-1);
  Packer& taker = is_cloned ? hasher : packer;
  std::vector<char> piece(kPiece);
  entry->size = 0;
  for (bool is_first = true;; is_first = false) {
    if (stop.stop_requested()) return Stopped();
    const ssize_t got = ReadPiece(from, piece);
    if (got < 0) return PosixError("read", static_cast<int>(-got));
    if (got == 0) break;
    const auto bytes = static_cast<size_t>(got);
    // Stops at a file that is appended to all the time.
    if (bytes > size - entry->size) return PosixError("read", ESTALE);
    if (is_first && !is_cloned && compress_ != Compress::kNever && IsWorthIt(piece, bytes)) {
      taker.Pack();
    }
    if (Status status = taker.Take(piece.data(), bytes); !status) {
      return store_.Failure("write", status.error().code);
    }
    entry->size += bytes;
  }
  if (Status status = taker.Finish(); !status) return store_.Failure("write", status.error().code);
  entry->digest = taker.Digest();
  entry->form = taker.form();
  return Ok();
}

Status StagedObjects::Commit() {
  // Syncs only these files: other data of this file system may take minutes.
  for (const auto& [name, staged] : staged_) {
    if (const int code = SyncFileAt(store_.fd(), staged); code != 0) {
      return store_.Failure("sync", code);
    }
  }
  while (!staged_.empty()) {
    const auto first = staged_.begin();
    const std::string directory = first->first.substr(0, first->first.rfind('/'));
    if (mkdirat(store_.fd(), directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return store_.Failure("mkdir", errno);
    }
    if (renameat(store_.fd(), first->second.c_str(), store_.fd(), first->first.c_str()) != 0) {
      return store_.Failure("rename", errno);
    }
    staged_.erase(first);
  }
  if (!object_directories_.empty()) object_directories_.insert("objects");
  for (const std::string& directory : object_directories_) {
    if (const int code = SyncDirectoryAt(store_.fd(), directory); code != 0) {
      return store_.Failure("sync", code);
    }
  }
  return Ok();
}

Result<bool> ReadObject(const Store& store, const Entry& entry, int target,
                        const std::stop_token& stop) {
  const UniqueFd object = store.OpenObject(entry);
  if (!object.IsValid() && errno == ENOENT) {
    return Error{ENOENT, "object " + entry.digest + " of '" + entry.path + "' is missing"};
  }
  if (!object.IsValid()) return Unreadable(entry, errno);
  const bool is_cloned =
      target >= 0 && entry.form == Form::kRaw && ioctl(target, FICLONE, object.Get()) == 0;
  Checker checker(entry, is_cloned ? -1 : target);
  // Reads the clone, which later changes of the object do not affect.
  const int source = is_cloned ? target : object.Get();
  Status status =
      entry.form == Form::kZstd ? Unpack(source, checker, stop) : Copy(source, checker, stop);
  if (status) status = checker.Finish();
  if (!status) return status.error();
  return is_cloned;
}

}  // namespace ppc::artifact
