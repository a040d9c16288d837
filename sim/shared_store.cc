// SPDX-License-Identifier: Apache-2.0
#include "sim/shared_store.h"

#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "daemon/base/files.h"

namespace ppc::sim {
namespace {

std::string Away(const std::string& directory) { return directory + ".away"; }

// State for the signal handler.
struct StoreRename {
  std::array<char, 4096> from{};
  std::array<char, 4096> to{};
};
StoreRename store_rename;

void LimitFiles(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  setrlimit(RLIMIT_FSIZE, &limit);
}

// Called in mid-write; the rest of the write fails.
void RenameStore(int /*signal*/) {
  LimitFiles(RLIM_INFINITY);
  (void)rename(store_rename.from.data(), store_rename.to.data());
}

void CopyPath(const std::string& path, std::array<char, 4096>* out) {
  (*out)[path.copy(out->data(), out->size() - 1)] = '\0';
}

}  // namespace

SharedStore::SharedStore(Scheduler* scheduler, std::string directory, const Options& options)
    : scheduler_(scheduler),
      directory_(std::move(directory)),
      options_(options),
      watch_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (options_.lost_after == 0) return;
  CopyPath(directory_, &store_rename.from);
  CopyPath(Away(directory_), &store_rename.to);
  struct sigaction action = {};
  action.sa_handler = RenameStore;
  sigaction(SIGXFSZ, &action, nullptr);
}

SharedStore::~SharedStore() {
  if (options_.lost_after == 0) return;
  LimitFiles(RLIM_INFINITY);
  signal(SIGXFSZ, SIG_DFL);
}

JobQueue::SimulatedDelay SharedStore::AnswerDelay() {
  return {[this] { Begin(); }, [this] { return GoesOn(); }};
}

void SharedStore::Watch() {
  const auto watch = [this](const std::string& path) {
    if (!watched_.insert(path).second) return;
    inotify_add_watch(watch_.Get(), path.c_str(), IN_OPEN | IN_CREATE | IN_MOVED_TO | IN_DELETE);
  };
  watch(directory_);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error))
    if (entry.is_directory()) watch(entry.path().string());
}

void SharedStore::Begin() {
  if (options_.late_ns != 0) {
    Watch();
    (void)Answers();  // ignores our own calls
  }
  if (options_.lost_after != 0) LimitFiles(options_.lost_after);
}

bool SharedStore::GoesOn() {
  const uint64_t now = scheduler_->NowNs();
  if (options_.lost_after != 0) LimitFiles(RLIM_INFINITY);
  if (options_.late_ns != 0) {
    const uint64_t late_ns = Answers() * options_.late_ns;
    end_ns_ = std::max(end_ns_, now) + late_ns;
    waited_ns_ += late_ns;
  }
  return now < end_ns_;
}

uint64_t SharedStore::Answers() {
  alignas(inotify_event) std::array<char, 65536> events{};
  uint64_t count = 0;
  for (;;) {
    const ssize_t bytes = read(watch_.Get(), events.data(), events.size());
    if (bytes <= 0) return count;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      // inotify reports the open of a directory for itself, and again for its parent.
      const bool is_again =
          (event->mask & IN_OPEN) != 0 && (event->mask & IN_ISDIR) != 0 && event->len != 0;
      count += is_again ? 0 : 1;
    }
  }
}

// ------------------------------------------------------------------- its contents

// Names and contents.
std::string TemplatesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().extension() != ".ppct") continue;
    const Result<std::string> text = ReadFile(entry.path(), size_t{1} << 30);
    files[entry.path()] = text.ok() ? *text : "";
  }
  std::string all;
  for (const auto& [path, text] : files) all += path + '\n' + text;
  return all;
}

namespace {

// Copies the templates, each with one wrong byte.
void DamageInto(const std::string& directory, const std::string& store) {
  std::error_code error;
  const auto options = std::filesystem::copy_options::recursive;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().extension() != ".ppct") continue;
    const std::string folder = entry.path().parent_path().filename();
    std::filesystem::create_directory(store + "/" + folder, error);
    const std::string copy = store + "/" + folder + "/" + entry.path().filename().string();
    std::filesystem::copy(entry.path(), copy, options, error);
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(entry.file_size() / 2));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put(static_cast<char>(~byte));
  }
}

// Half the bytes of the smallest template.
uint64_t HalfOf(const std::string& directory) {
  uint64_t least = ~uint64_t{0};
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().extension() == ".ppct") least = std::min(least, entry.file_size());
  }
  return least / 2;
}

}  // namespace

bool ShareTemplates(const std::string& templates, const std::string& store, System* system) {
  if (!system->is_store_damaged && !system->is_store_lost && system->store_late_s == 0) return true;
  std::error_code error;
  if (!std::filesystem::create_directory(store, error)) return false;
  if (system->is_store_damaged) DamageInto(templates, store);
  if (system->is_store_lost) system->store_lost_after = HalfOf(templates);
  system->config["store"] = "dir:" + store;
  return true;
}

double CutFilesIn(const std::string& store) {
  double count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Away(store), error))
    count += entry.is_regular_file() && entry.file_size() != 0 ? 1 : 0;
  return count;
}

// Removes files made meanwhile at its place, which a mount would hide.
void BringStoreBack(const std::string& store) {
  std::error_code error;
  if (!std::filesystem::exists(Away(store), error)) return;
  std::filesystem::remove_all(store, error);
  std::filesystem::rename(Away(store), store, error);
}

StoredTemplates TemplatesInStore(const std::string& store, const std::string& templates) {
  constexpr size_t kOther = 8 + 32;  // a generation and a digest, which may differ
  StoredTemplates found;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store, error)) {
    const std::string name = entry.path().string();
    if (!entry.is_regular_file() || name.find(".ppct.tmp") != std::string::npos) continue;
    const std::string local =
        templates + name.substr(store.size(), name.rfind(".ppct") + 5 - store.size());
    const Result<std::string> there = ReadFile(name, size_t{1} << 30);
    const Result<std::string> here = ReadFile(local, size_t{1} << 30);
    bool is_whole = there.ok() && here.ok() && there->size() == here->size();
    size_t others = 0;
    for (size_t at = 0; is_whole && at < there->size(); ++at) {
      others += (*there)[at] != (*here)[at] ? 1 : 0;
      is_whole = others <= kOther;
    }
    ++(is_whole ? found.whole : found.torn);
  }
  return found;
}

}  // namespace ppc::sim
