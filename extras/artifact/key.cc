// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/key.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <sstream>
#include <string_view>

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "extras/artifact/files_at.h"

namespace ppc::artifact {
namespace {

constexpr size_t kMaxPart = 4096;
constexpr size_t kConfigDigits = 16;

// The text after "name :" in lines of /proc.
std::string Field(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && Trim(line.substr(0, colon)) == name) {
      return Trim(line.substr(colon + 1));
    }
  }
  return "";
}

std::string Joined(const std::set<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  const Result<std::vector<std::string>> names = NamesAt(-1, directory + "/.");
  return names ? *names : std::vector<std::string>();
}

// Names only: the number of GPUs does not change the compiled code.
std::string GpuNames(const SysRoots& roots) {
  std::set<std::string> names;
  const std::string nvidia = roots.Proc("/driver/nvidia/gpus");
  for (const std::string& gpu : NamesIn(nvidia)) {
    const Result<std::string> text = ReadFile(nvidia + "/" + gpu + "/information");
    const std::string model = text ? Field(*text, "Model") : "";
    if (!model.empty()) names.insert(model);
  }
  const std::string kfd = roots.Sys("/class/kfd/kfd/topology/nodes");
  for (const std::string& node : NamesIn(kfd)) {
    const Result<std::string> text = ReadFile(kfd + "/" + node + "/properties");
    std::istringstream lines(text ? *text : "");
    for (std::string line; std::getline(lines, line);) {
      // 0 is the version of a CPU.
      constexpr std::string_view kVersion = "gfx_target_version ";
      if (line.starts_with(kVersion) && Trim(line.substr(kVersion.size())) != "0") {
        names.insert("AMD gfx " + Trim(line.substr(kVersion.size())));
      }
    }
  }
  return Joined(names, ", ");
}

std::string CpuOf(const SysRoots& roots) {
  utsname system{};
  std::string text = uname(&system) == 0 ? system.machine : "";
  const Result<std::string> info = ReadFile(roots.Proc("/cpuinfo"), 1 << 16);
  if (!info) return text;
  std::string flags = Field(*info, "flags");
  if (flags.empty()) flags = Field(*info, "Features");
  std::istringstream words(flags);
  std::set<std::string> sorted;
  for (std::string word; words >> word;) sorted.insert(word);
  return sorted.empty() ? text : text + " " + Joined(sorted, " ");
}

}  // namespace

Probe MachineProbe(const SysRoots& roots) {
  return [roots](Key* key) {
    if (const std::string gpus = GpuNames(roots); !gpus.empty()) (*key)["gpu"] = gpus;
    for (const char* module : {"nvidia", "amdgpu"}) {
      const Result<std::string> version =
          ReadLine(roots.Sys(std::string("/module/") + module + "/version"));
      if (version && !version->empty()) (*key)["driver"] = std::string(module) + " " + *version;
    }
    (*key)["cpu"] = CpuOf(roots);
  };
}

Probe CommandProbe(const std::vector<std::string>& command) {
  // Options of addresses and users do not change the compiled code.
  static constexpr std::array<std::string_view, 6> kSkipped = {
      "--host", "--port", "--api-key", "--uds", "--ssl-keyfile", "--ssl-certfile"};
  Json words = Json::array();
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string_view word = command[i];
    const size_t equals = word.find('=');
    if (std::find(kSkipped.begin(), kSkipped.end(), word.substr(0, equals)) == kSkipped.end()) {
      words.push_back(command[i]);
    } else if (equals == std::string_view::npos) {
      ++i;
    }
  }
  const std::string digest = Sha256Hex(DumpJson(words)).substr(0, kConfigDigits);
  return [digest, is_given = !command.empty()](Key* key) {
    if (is_given) (*key)["config"] = digest;
  };
}

Result<Key> MakeKey(const std::vector<Probe>& probes, const std::vector<std::string>& given) {
  Key key;
  for (const Probe& probe : probes) probe(&key);
  for (const std::string& pair : given) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{EINVAL, "--key '" + pair + "' is not NAME=VALUE"};
    }
    if (pair.size() > kMaxPart) return Error{EINVAL, "--key: more than 4096 bytes"};
    key[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return key;
}

}  // namespace ppc::artifact
