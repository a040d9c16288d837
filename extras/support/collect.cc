// SPDX-License-Identifier: Apache-2.0
#include "extras/support/collect.h"

#include <sys/utsname.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/mount_table.h"
#include "daemon/wire/protocol.h"
#include "extras/doctor/checks.h"
#include "extras/support/redact.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTemplates = 1000;
constexpr int kMostLevels = 16;  // of control groups

class Bundle {
 public:
  void Add(const std::string& name, const std::string& what, const Json& value) {
    AddText(name, what, WithoutSecrets(value, &secrets_).dump(1) + "\n", false);
  }
  // `is_log`: keep the end, not the beginning.
  void AddText(const std::string& name, const std::string& what, std::string text, bool is_log) {
    if (text.size() > kMostOfAFile) {
      left_out_.push_back(name + ": " + HumanBytes(text.size() - kMostOfAFile) + " of its " +
                          (is_log ? "beginning" : "end"));
      text = is_log ? text.substr(text.size() - kMostOfAFile) : text.substr(0, kMostOfAFile);
    }
    if (name.ends_with(".txt")) text = WithoutSecrets(text, &secrets_).substr(0, kMostOfAFile);
    names_.push_back({"  " + name, what});
    files_.push_back({"ppc-support/" + name, std::move(text)});
  }
  void LeftOut(const std::string& what) { left_out_.push_back(what); }

  std::vector<BundleFile> Finish() {
    std::string text = "What `ppcctl support-bundle` found on this machine.\n\n" + Table(names_);
    text += "\nNever in it: model files, templates' contents, environments, tokens, keys.\n";
    text += "\nLeft out:\n  " + std::to_string(secrets_) + " values that look like secrets\n";
    size_t ignored = 0;
    for (const std::string& what : left_out_) text += "  " + WithoutSecrets(what, &ignored) + "\n";
    files_.insert(files_.begin(), {"ppc-support/README.txt", text});
    return std::move(files_);
  }

 private:
  std::vector<BundleFile> files_;
  std::vector<std::vector<std::string>> names_;
  std::vector<std::string> left_out_;
  size_t secrets_ = 0;
};

// "" if it cannot be read.
std::string TextOf(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text ? *text : "";
}

Json LineOf(const std::string& path) {
  const Result<std::string> line = ReadLine(path);
  return line ? Json(*line) : Json(nullptr);
}

std::string SystemName(const SystemSnapshot& snapshot) {
  const std::string text = TextOf(snapshot.host + "/etc/os-release");
  const std::string kName = "PRETTY_NAME=";
  const size_t at = text.find(kName);
  if (at == std::string::npos) return "";
  const size_t begin = at + kName.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

Json Versions(const Gathered& gathered) {
  const SystemSnapshot& snapshot = gathered.snapshot;
  utsname kernel{};
  uname(&kernel);
  return {
      {"ppcctl", control::kVersionText},
      {"ppcd", snapshot.daemon.value("version", "")},
      {"kernel",
       {{"release", snapshot.release}, {"version", kernel.version}, {"machine", kernel.machine}}},
      {"system", SystemName(snapshot)},
      {"module", LineOf(snapshot.roots.Sys("/module/ppc/version"))},
      {"module_srcversion", LineOf(snapshot.roots.Sys("/module/ppc/srcversion"))},
      {"has_btf", fs::exists(snapshot.roots.Sys("/kernel/btf/vmlinux"))},
      {"lockdown", LineOf(snapshot.roots.Sys("/kernel/security/lockdown"))},
      {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
      {"memory", TextOf(snapshot.roots.Proc("/meminfo"))}};
}

// File system of each directory, and mounts below it; without options, which may name users.
Json Mounts(const SystemSnapshot& snapshot) {
  const std::vector<MountEntry> table = ReadMountTable(snapshot.roots);
  Json list = Json::array();
  const auto describe = [](const MountEntry& entry) {
    return Json{
        {"point", entry.point}, {"type", entry.type}, {"source", entry.source}, {"dev", entry.dev}};
  };
  for (const std::string& directory : snapshot.registered) {
    Json below = Json::array();
    for (const MountEntry& entry : table) {
      if (entry.point != directory && IsBelow(entry.point, directory))
        below.push_back(describe(entry));
    }
    const MountEntry* entry = FindMount(table, directory);
    list.push_back({{"directory", directory},
                    {"on", entry == nullptr ? Json(nullptr) : describe(*entry)},
                    {"below", below}});
  }
  return list;
}

// Names and sizes only; contents stay on this machine.
Json Templates(const std::string& store, Bundle* bundle) {
  Json list = Json::array();
  std::error_code error;
  for (fs::recursive_directory_iterator entry(store, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone)) continue;
    if (list.size() == kMostTemplates) {
      bundle->LeftOut("templates.json: all but " + std::to_string(kMostTemplates));
      break;
    }
    list.push_back(
        {{"file", entry->path().lexically_relative(store)}, {"bytes", entry->file_size(gone)}});
  }
  std::sort(list.begin(), list.end());
  return {{"store", store}, {"files", list}};
}

Json CgroupFiles(const std::string& directory) {
  constexpr std::array kFiles = {"memory.max",
                                 "memory.high",
                                 "memory.current",
                                 "memory.events",
                                 "memory.limit_in_bytes",
                                 "memory.usage_in_bytes",
                                 "memory.failcnt",
                                 "cpu.max",
                                 "cpu.cfs_quota_us",
                                 "cpuset.cpus.effective",
                                 "cpuset.mems.effective",
                                 "io.max",
                                 "blkio.throttle.read_bps_device",
                                 "pids.max"};
  Json files = Json::object();
  for (const char* name : kFiles) {
    const Result<std::string> text = ReadFile(directory + "/" + name, 4096);
    if (text) files[name] = Trim(*text);
  }
  return files;
}

// The limits of each service's group and of the groups above it, which apply too.
Json Cgroups(const Gathered& gathered) {
  std::set<std::string> groups;
  for (const Json& mount : JsonMember(gathered.status, "mounts")) {
    for (const Json& service : JsonMember(mount, "services")) {
      const Json& cgroup = JsonMember(service, "cgroup");
      if (cgroup.is_string()) groups.insert(cgroup.get<std::string>());
    }
  }
  Json out = Json::object();
  for (const std::string& group : groups) {
    const Result<Cgroup> opened = Cgroup::Open(group, gathered.snapshot.roots);
    if (!opened) {
      out[group] = {{"error", opened.error().message}};
      continue;
    }
    // The path ends with the group's name: go up as many levels.
    fs::path directory = opened->path();
    const auto names =
        static_cast<int>(std::count(opened->relative().begin(), opened->relative().end(), '/'));
    for (int i = 0; i < std::min(names, kMostLevels); ++i, directory = directory.parent_path()) {
      out[directory.string()] = CgroupFiles(directory.string());
    }
  }
  return out;
}

std::string LogText(const std::vector<LoggedLine>& lines) {
  std::string text;
  for (const LoggedLine& line : lines) {
    text +=
        LocalTime(line.time_ns) + "  <" + std::to_string(line.priority) + ">  " + line.text + "\n";
  }
  return text;
}

constexpr size_t kBlock = 512;

// POSIX.1-1988's header; numbers are octal text.
struct Header {
  std::array<char, 100> name;
  std::array<char, 8> mode;
  std::array<char, 8> uid;
  std::array<char, 8> gid;
  std::array<char, 12> size;
  std::array<char, 12> mtime;
  std::array<char, 8> checksum;
  char type;
  std::array<char, 100> link;
  std::array<char, 8> magic;
  std::array<char, 247> rest;  // users' names, devices, a prefix: unused
};
static_assert(sizeof(Header) == kBlock);

template <size_t size>
void PutOctal(std::array<char, size>* field, uint64_t value) {
  for (size_t i = size - 1; i-- > 0; value >>= 3) {
    (*field)[i] = static_cast<char>('0' + (value & 7));
  }
}

std::string HeaderOf(const BundleFile& file, uint64_t time_s) {
  Header header{};
  std::memcpy(header.name.data(), file.name.data(), std::min(file.name.size(), size_t{99}));
  PutOctal(&header.mode, 0600);
  PutOctal(&header.uid, 0);
  PutOctal(&header.gid, 0);
  PutOctal(&header.size, file.text.size());
  PutOctal(&header.mtime, time_s);
  header.type = '0';
  std::memcpy(header.magic.data(), "ustar\00000", 8);
  // The checksum is computed with blanks in its place.
  header.checksum.fill(' ');
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  uint64_t sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  std::array<char, 8> field{};
  std::snprintf(field.data(), field.size(), "%06o", static_cast<unsigned>(sum));
  field[7] = ' ';
  text.replace(offsetof(Header, checksum), field.size(), field.data(), field.size());
  return text;
}

}  // namespace

Gathered Gather(unsigned timeout_ms) {
  Gathered gathered;
  DaemonLink link(timeout_ms);
  const auto ask = [&](const Json& request) -> Json {
    const Result<Json> answer = link.Ask(request);
    if (answer) return *answer;
    gathered.errors.push_back(request.value("op", "") + ": " + answer.error().message);
    return nullptr;
  };
  gathered.status = ask({{"op", "status"}});
  if (gathered.status.is_object()) {
    gathered.status.erase("ok");
    const Json metrics = ask({{"op", "metrics"}});
    if (metrics.is_object()) gathered.metrics = metrics.value("text", "");
  }
  gathered.log = LinesOfJournal("", "");
  if (!gathered.log.empty()) {
    gathered.log_source = "journal";
  } else if (gathered.status.is_object()) {
    const Json answer = ask({{"op", "log"}});
    if (answer.is_object()) gathered.log = LinesOfAnswer(answer);
    if (!gathered.log.empty()) gathered.log_source = "ppcd";
  }
  gathered.snapshot = TakeSnapshot("", timeout_ms);
  return gathered;
}

std::vector<BundleFile> BundleOf(const Gathered& gathered) {
  const SystemSnapshot& snapshot = gathered.snapshot;
  Bundle bundle;
  for (const std::string& error : gathered.errors) bundle.LeftOut(error);
  bundle.Add("versions.json", "versions of kernel, system and programs, memory",
             Versions(gathered));
  if (gathered.status.is_object()) {
    bundle.Add("status.json", "status: directories, policies with their configuration, services",
               gathered.status);
  }
  if (!gathered.metrics.empty()) {
    bundle.AddText("metrics.txt", "metrics", gathered.metrics, false);
  }
  bundle.Add("doctor.json", "doctor: what keeps services from starting faster",
             FindingsJson(Examine(snapshot)));
  if (gathered.log.empty()) {
    bundle.LeftOut("log.txt: nothing was logged, or it is not to be had");
  } else {
    bundle.AddText("log.txt", "the last that was logged, from " + gathered.log_source,
                   LogText(gathered.log), true);
  }
  bundle.Add("mounts.json", "file systems of the registered directories", Mounts(snapshot));
  bundle.Add("templates.json", "names and sizes of templates",
             Templates(snapshot.template_dir, &bundle));
  bundle.Add("cgroups.json", "limits of the services' control groups", Cgroups(gathered));
  return bundle.Finish();
}

std::string TarOf(const std::vector<BundleFile>& files, uint64_t time_s) {
  std::string tar;
  for (const BundleFile& file : files) {
    tar += HeaderOf(file, time_s) + file.text;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock);
  }
  tar.resize(tar.size() + 2 * kBlock);
  return tar;
}

Result<std::string> Compressed(const std::string& data) {
  std::string out(ZSTD_compressBound(data.size()), '\0');
  const size_t bytes = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 3);
  if (ZSTD_isError(bytes) != 0) return Error{EIO, std::string("zstd: ") + ZSTD_getErrorName(bytes)};
  out.resize(bytes);
  return out;
}

}  // namespace ppc::ctl
