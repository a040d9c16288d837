// SPDX-License-Identifier: Apache-2.0
// Causes in the kernel, the module and ppcd that keep PPC from working.
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "daemon/base/files.h"
#include "daemon/machine/mount_table.h"
#include "daemon/machine/proc_info.h"
#include "daemon/wire/protocol.h"
#include "extras/doctor/checks.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string Text(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text ? *text : "";
}

// "none", "integrity", "confidentiality": the word in brackets.
std::string Lockdown(const SystemSnapshot& snapshot) {
  const std::string text = Text(snapshot.roots.Sys("/kernel/security/lockdown"));
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  return close == std::string::npos ? "none" : text.substr(open + 1, close - open - 1);
}

// The module's file for this kernel, "" = none.
std::string ModuleFile(const SystemSnapshot& snapshot) {
  const std::string below = snapshot.host + "/lib/modules/" + snapshot.release;
  for (const char* folder : {"/updates/dkms", "/updates", "/extra", "/kernel/fs/ppc", "/kmod"}) {
    for (const char* ending : {"", ".xz", ".zst", ".gz"}) {
      std::string file = below + folder + "/ppc.ko" + ending;
      if (Exists(file)) return file;
    }
  }
  return "";
}

// The end of a compressed file shows no signature; it counts as signed.
bool IsSigned(const std::string& file) {
  static const std::string kMark = "~Module signature appended~\n";
  if (!file.ends_with(".ko")) return true;
  std::ifstream text(file, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::streamoff>(text.tellg());
  const auto wanted = static_cast<std::streamoff>(kMark.size());
  if (size < wanted) return false;
  std::string end(kMark.size(), '\0');
  text.seekg(size - wanted);
  text.read(end.data(), wanted);
  return end == kMark;
}

// Mount points of type ppc in fstab that are not mounted.
std::vector<std::string> NotMounted(const SystemSnapshot& snapshot) {
  std::vector<std::string> points;
  const std::vector<MountEntry> table = ReadMountTable(snapshot.roots);
  std::istringstream lines(Text(snapshot.host + "/etc/fstab"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string source, point, type;
    fields >> source >> point >> type;
    if (source.starts_with('#') || type != "ppc") continue;
    const MountEntry* entry = FindMount(table, point);
    if (entry == nullptr || entry->point != point || entry->type != "ppc") points.push_back(point);
  }
  return points;
}

std::string StartCommand(const SystemSnapshot& snapshot) {
  const std::string command = control::HowToStart(snapshot.socket, snapshot.host);
  return command.starts_with("ppcd") ? command + " &" : command;
}

// The state of ppcd's process; "" = none runs.
std::string DaemonStatus(const SystemSnapshot& snapshot) {
  return Text(
      snapshot.roots.Proc("/" + std::to_string(snapshot.daemon.value("pid", 0)) + "/status"));
}

// As root, with the capabilities of a service manager or root shell.
std::string RestartCommand(const SystemSnapshot& snapshot) {
  std::string start = StartCommand(snapshot);
  if (start.starts_with("systemctl")) return "systemctl restart ppcd";
  // Root's ppcd does not take over files that another user may have written.
  if (NumberAfter(DaemonStatus(snapshot), "Uid:").value_or(0) != 0) {
    start = "ppcd --socket " + ShellWord(snapshot.socket) + " --state-dir " +
            ShellWord(snapshot.socket + ".state") + " &";
  }
  const std::string pid = std::to_string(snapshot.daemon.value("pid", 0));
  return "kill " + pid + " && tail --pid=" + pid + " -f /dev/null && " + start;
}

// Comments out a mount point's line in fstab.
std::string WithoutLine(const SystemSnapshot& snapshot, const std::string& point) {
  std::string pattern;
  for (const char c : point) {
    // Characters with a meaning in the regular expression.
    if (std::string_view("\\.[]*^$|").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return "sed -i " + ShellWord("s|^[^#]*\\s" + pattern + "\\s\\s*ppc\\s|# &|") + " " +
         ShellWord(snapshot.host + "/etc/fstab");
}

void CheckModule(const SystemSnapshot& snapshot, Findings* out) {
  const bool is_loaded = Exists(snapshot.roots.Sys("/module/ppc"));
  const std::string file = ModuleFile(snapshot);
  for (const std::string& point : NotMounted(snapshot)) {
    if (is_loaded) {
      out->push_back({"not-mounted", point, "fstab lists it, and it is not mounted",
                      "mount " + ShellWord(point), true});
    } else if (file.empty()) {
      out->push_back(
          {"no-module", point,
           "fstab lists it as a ppc mount, and kernel " + snapshot.release + " has no module ppc",
           "dkms autoinstall -k " + snapshot.release + " && mount " + ShellWord(point), true});
    } else if (Lockdown(snapshot) != "none" && !IsSigned(file)) {
      out->push_back(
          {"unsigned-module", point,
           "the kernel is locked down and takes signed modules only; " + file +
               " is not signed.  Sign it with a key that the machine's owner has enrolled (mokutil "
               "--import), or do without the mount: the observer needs no module",
           WithoutLine(snapshot, point), true});
    } else {
      out->push_back({"no-module", point, "fstab lists it as a ppc mount; the module is not loaded",
                      "modprobe ppc && mount " + ShellWord(point), true});
    }
  }
  // Every mount has a device.
  std::error_code error;
  for (fs::directory_iterator entry(snapshot.roots.Sys("/fs/ppc"), error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string device = "/dev/ppc" + entry->path().filename().string();
    struct stat info {};
    if (stat((snapshot.host + device).c_str(), &info) != 0) {
      out->push_back({"no-device", device, "a ppc mount has no device file here",
                      "udevadm trigger --action=add --subsystem-match=ppc", true});
      continue;
    }
    const std::string status = DaemonStatus(snapshot);
    const std::optional<uint64_t> user = NumberAfter(status, "Uid:");
    const uint64_t caps = NumberAfter(status, "CapEff:", 16).value_or(~uint64_t{0});
    constexpr uint64_t kOverride = uint64_t{1} << 1;  // CAP_DAC_OVERRIDE
    if (user && *user != info.st_uid && (caps & kOverride) == 0) {
      out->push_back({"device-permission", device,
                      "ppcd runs as user " + std::to_string(*user) +
                          " and may not open it.  Start it as root, and register again what it has",
                      RestartCommand(snapshot), true});
    }
  }
}

struct Capability {
  const char* name;
  int bit;
};
constexpr std::array kObserverNeeds = {
    Capability{"CAP_DAC_READ_SEARCH", 2}, Capability{"CAP_SYS_PTRACE", 19},
    Capability{"CAP_SYS_NICE", 23}, Capability{"CAP_PERFMON", 38}, Capability{"CAP_BPF", 39}};
constexpr uint64_t kSysAdmin = uint64_t{1} << 21;

std::string MissingCapabilities(const SystemSnapshot& snapshot) {
  const std::optional<uint64_t> caps = NumberAfter(DaemonStatus(snapshot), "CapEff:", 16);
  if (!caps) return "";
  std::string missing;
  for (const Capability& each : kObserverNeeds) {
    // CAP_SYS_ADMIN includes the two youngest.
    if (each.bit >= 38 && (*caps & kSysAdmin) != 0) continue;
    if ((*caps >> each.bit & 1) == 0)
      missing += (missing.empty() ? "" : ", ") + std::string(each.name);
  }
  return missing;
}

// The PID of a stopped process called `name`.
int StoppedProcess(const SystemSnapshot& snapshot, const std::string& name) {
  for (const int pid : ListNumbers(snapshot.roots.Proc(""))) {
    const std::string process = snapshot.roots.Proc("/" + std::to_string(pid));
    if (Trim(Text(process + "/comm")) != name) continue;
    if (ProcessState(snapshot.roots, pid) == 'T') return pid;
  }
  return 0;
}

}  // namespace

void CheckMachine(const SystemSnapshot& snapshot, Findings* out) {
  CheckModule(snapshot, out);
  const bool has_btf = Exists(snapshot.roots.Sys("/kernel/btf/vmlinux"));
  bool is_polling = snapshot.directories.empty();
  for (const DirectorySnapshot& dir : snapshot.directories) {
    const std::string backend = dir.mount.is_object() ? dir.mount.value("backend", "") : "";
    is_polling = is_polling || backend.empty() || backend == "poll";
  }
  // The module needs none of the following.
  if (!is_polling) return;
  if (!has_btf) {
    out->push_back(
        {"no-btf", "",
         "the kernel has no BTF (/sys/kernel/btf/vmlinux), so the observer cannot attach; "
         "directories are polled",
         "boot a kernel with CONFIG_DEBUG_INFO_BTF, or mount the directory with the module", true});
  } else if (Lockdown(snapshot) == "confidentiality") {
    out->push_back({"lockdown", "",
                    "the kernel is locked down for confidentiality, so the observer cannot attach; "
                    "directories are polled",
                    "boot with lockdown=integrity, or mount the directory with the (signed) module",
                    true});
  } else if (const std::string missing = MissingCapabilities(snapshot); !missing.empty()) {
    out->push_back({"no-capability", "ppcd",
                    "it lacks " + missing +
                        ", so the observer cannot attach; directories are polled.  "
                        "Start it as root, with these capabilities",
                    RestartCommand(snapshot), true});
  }
}

void CheckDaemon(const SystemSnapshot& snapshot, Findings* out) {
  switch (snapshot.daemon_error) {
    case 0:
      if (!snapshot.daemon.value("off", false)) return;
      out->push_back({"off", "", "PPC is switched off on this machine", "ppcctl on", true});
      return;
    case EACCES:
    case EPERM:
      out->push_back({"daemon-refuses", "ppcd", snapshot.daemon_says, "ask as root", true});
      return;
    case ETIMEDOUT:
    case EAGAIN:
      if (const int pid = StoppedProcess(snapshot, "ppcd"); pid != 0) {
        out->push_back({"daemon-hangs", "ppcd",
                        "process " + std::to_string(pid) + " is stopped and answers nobody",
                        "kill -CONT " + std::to_string(pid), true});
      } else {
        out->push_back({"daemon-hangs", "ppcd", "it does not answer: " + snapshot.daemon_says,
                        "systemctl restart ppcd", true});
      }
      return;
    default:
      out->push_back({"daemon-down", "ppcd", "it does not run: " + snapshot.daemon_says,
                      StartCommand(snapshot), true});
  }
}

}  // namespace ppc::ctl
