// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/learnt_programs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <ranges>
#include <system_error>
#include <utility>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/policy/io_check.h"

namespace ppc {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMostText = 4096;  // bytes of a path
constexpr size_t kMostBytes = 1 << 20;

// A crash leaves the old file or the new one.
Status Replace(const std::string& path, const std::string& text) {
  const std::filesystem::path dir = std::filesystem::path(path).parent_path();
  const std::string fresh = path + ".new";
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) return PosixError("make " + dir.string(), failed.value());
  UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.IsValid()) return PosixError("open " + fresh, errno);
  if (Status written = WriteAll(fd.Get(), text.data(), text.size()); !written) return written;
  if (fsync(fd.Get()) != 0) return PosixError("write " + fresh, errno);
  if (rename(fresh.c_str(), path.c_str()) != 0) return PosixError("rename " + fresh, errno);
  return Ok();
}

std::optional<LearntProgram> FromJson(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  bool is_good = true;
  const auto number = [&](const char* key, uint64_t most) -> uint64_t {
    const auto member = json.find(key);
    const bool is_number = member != json.end() && member->is_number_unsigned();
    const uint64_t value = is_number ? member->get<uint64_t>() : 0;
    is_good &= is_number && value <= most;
    return value;
  };
  const auto text = [&](const char* key) {
    const Result<std::string> value = JsonString(json, key, "");
    is_good &= value && value->size() <= kMostText;
    return value ? *value : "";
  };
  LearntProgram one;
  one.file.ino = number("ino", UINT64_MAX);
  one.file.dev = static_cast<uint32_t>(number("dev", UINT32_MAX));
  one.program = text("program");
  one.service_id = text("service_id");
  one.model = text("model");
  one.cgroup = text("cgroup");
  one.uid = static_cast<uint32_t>(number("uid", UINT32_MAX));
  one.wait_ns = number("wait_ns", UINT64_MAX);
  const Result<bool> may_guess = JsonBool(json, "may_guess", false);
  one.may_guess = may_guess && *may_guess;
  is_good &= may_guess.ok() && one.file.ino != 0 && one.service_id.starts_with("auto-") &&
             IsCleanPath(one.model.c_str());
  if (!is_good) return std::nullopt;
  return one;
}

}  // namespace

std::string ProgramId(const Program& program) {
  constexpr size_t kDigits = 16;
  return Sha256Hex(program.exe + '\0' + program.script).substr(0, kDigits);
}

bool LearntPrograms::AreBuilt() { return true; }

bool LearntProgram::IsOf(const Program& other) const {
  return other.uid == uid && other.cgroup == cgroup && ProgramId(other) == program;
}

void LearntPrograms::Open() {
  if (parts_.path.empty()) return;
  const Result<std::string> text = ReadFile(parts_.path, kMostBytes);
  if (!text && text.error().code == ENOENT) return;
  Result<std::vector<LearntProgram>> known =
      text ? Parse(*text, parts_.path) : Result<std::vector<LearntProgram>>(text.error());
  if (known) {
    programs_ = std::move(*known);
    return Watch();
  }
  Log(LogLevel::kWarning, "forgets the programs that had loaded models, and replaces the file: " +
                              known.error().message);
  Changed();
}

bool LearntPrograms::Knows(const Exec& exec) const {
  return std::ranges::any_of(programs_, [&exec](const LearntProgram& one) {
    return one.may_guess && one.file == exec.file && one.uid == exec.uid;
  });
}

const LearntProgram* LearntPrograms::Find(const Executable& file, const Program& program) const {
  for (const LearntProgram& one : std::views::reverse(programs_)) {
    if (one.may_guess && one.file == file && one.IsOf(program)) return &one;
  }
  return nullptr;
}

// All its models: it may have others, and what loads none is to be guessed once.
LearntProgram LearntPrograms::TakeGuess(const LearntProgram& known) {
  const LearntProgram taken = known;
  for (LearntProgram& one : programs_) {
    if (one.program == taken.program && one.uid == taken.uid && one.cgroup == taken.cgroup)
      one.may_guess = false;
  }
  ++stats_.guesses;
  Changed();
  return taken;
}

void LearntPrograms::NoteLoaded(LearntProgram loaded) {
  loaded.may_guess = true;
  const auto is_its = [&loaded](const LearntProgram& one) {
    return one.program == loaded.program && one.uid == loaded.uid && one.cgroup == loaded.cgroup;
  };
  std::erase_if(programs_, [&](const LearntProgram& one) {
    return is_its(one) && one.service_id == loaded.service_id;
  });
  for (LearntProgram& one : programs_) {
    if (is_its(one)) one.may_guess = true;
  }
  programs_.push_back(std::move(loaded));
  if (programs_.size() > kMost) programs_.erase(programs_.begin());
  Changed();
}

void LearntPrograms::NoteWrong(uint64_t bytes) {
  ++stats_.wrong;
  stats_.wrong_bytes += bytes;
}

LearntPrograms::Stats LearntPrograms::View() const {
  Stats view = stats_;
  view.programs = programs_.size();
  return view;
}

// An executable that no start of is to be guessed costs nothing.
void LearntPrograms::Watch() const {
  if (parts_.backend == nullptr) return;
  std::vector<Executable> files;
  for (const LearntProgram& one : programs_) {
    if (one.may_guess) files.push_back(one.file);
  }
  parts_.backend->WatchExecs(files);
}

void LearntPrograms::Changed() {
  Watch();
  if (parts_.path.empty() || !parts_.offload) return;
  parts_.offload(
      [path = parts_.path, text = Dump()] {
        const Status written = Replace(path, text);
        if (!written) {
          Log(LogLevel::kWarning,
              "which programs load models is not kept: " + written.error().message);
        }
      },
      nullptr);
}

std::string LearntPrograms::Dump() const {
  Json list = Json::array();
  for (const LearntProgram& one : programs_) {
    list.push_back({{"ino", one.file.ino},
                    {"dev", one.file.dev},
                    {"program", one.program},
                    {"service_id", one.service_id},
                    {"model", one.model},
                    {"cgroup", one.cgroup},
                    {"uid", one.uid},
                    {"wait_ns", one.wait_ns},
                    {"may_guess", one.may_guess}});
  }
  return DumpJson({{"version", kVersion}, {"programs", std::move(list)}}) + "\n";
}

Result<std::vector<LearntProgram>> LearntPrograms::Parse(std::string_view text,
                                                         const std::string& what) {
  const Result<Json> json = ParseJsonObject(text, what);
  if (!json) return json.error();
  const auto version = json->find("version");
  const auto list = json->find("programs");
  if (version == json->end() || *version != kVersion || list == json->end() || !list->is_array())
    return Error{EINVAL, what + ": not a list of programs of version 1"};
  if (list->size() > kMost) return Error{EINVAL, what + ": more than 64 programs"};
  std::vector<LearntProgram> programs;
  for (const Json& each : *list) {
    std::optional<LearntProgram> one = FromJson(each);
    if (!one) return Error{EINVAL, what + ": an entry is not as one is written"};
    programs.push_back(*std::move(one));
  }
  return programs;
}

}  // namespace ppc
