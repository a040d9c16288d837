// SPDX-License-Identifier: Apache-2.0
#include "extras/xllm/instance_service.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <functional>
#include <set>
#include <sstream>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc::ctl::xllm {
namespace {

constexpr size_t kMaxTable = 16 << 20;
constexpr const char* kListen = "0A";  // TCP_LISTEN, as /proc/net/tcp writes it

bool IsLocal(const std::string& host) {
  in_addr v4 = {};
  in6_addr v6 = {};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool is_ours = false;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (is_v4 && one->ifa_addr->sa_family == AF_INET) {
      is_ours |= reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr == v4.s_addr;
    } else if (!is_v4 && one->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& other = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      is_ours |= IN6_ARE_ADDR_EQUAL(&other, &v6);
    }
  }
  freeifaddrs(list);
  return is_ours;
}

// "socket:[INODE]" of the sockets that listen on a port.
std::set<std::string> SocketsAt(const SysRoots& roots, uint16_t port) {
  std::set<std::string> sockets;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    const Result<std::string> text = ReadFile(roots.Proc(table), kMaxTable);
    if (!text) continue;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      const size_t colon = local.rfind(':');
      if (state != kListen || colon == std::string::npos || inode.empty()) continue;
      unsigned at = 0;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), at, 16);
      if (at == port) sockets.insert("socket:[" + inode + "]");
    }
  }
  return sockets;
}

std::string StatusText(const Json& object, const char* key) {
  const Json& member = JsonMember(object, key);
  return member.is_string() ? member.get<std::string>() : "";
}

std::vector<Service> Those(const Json& status, const std::function<bool(const Json&)>& is_one) {
  std::vector<Service> found;
  for (const Json& mount : JsonMember(status, "mounts")) {
    for (const Json& service : JsonMember(mount, "services")) {
      if (is_one(service))
        found.push_back({StatusText(mount, "mount"), StatusText(service, "service_id")});
    }
  }
  return found;
}

}  // namespace

std::optional<uint16_t> LocalPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [read, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || read != end || port == 0) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return IsLocal(host) ? std::optional(port) : std::nullopt;
}

int ListenerOf(const SysRoots& roots, uint16_t port) {
  const std::set<std::string> sockets = SocketsAt(roots, port);
  if (sockets.empty()) return 0;
  for (const int pid : ListNumbers(roots.Proc(""))) {
    const std::string folder = roots.Proc("/" + std::to_string(pid) + "/fd");
    for (const int fd : ListNumbers(folder)) {
      if (sockets.contains(LinkTarget(folder + "/" + std::to_string(fd)))) return pid;
    }
  }
  return 0;
}

std::vector<Service> ServicesOf(const SysRoots& roots, const Json& status, int pid) {
  // A process that names another service belongs to that one, wherever it runs.
  if (const auto id = ProcessEnv(ProcessEnviron(roots, pid), "PPC_SERVICE_ID"))
    return ServicesNamed(status, *id);
  std::set<int64_t> ancestors;
  for (std::optional<int> one = pid; one && *one > 0 && ancestors.insert(*one).second;)
    one = ProcessParent(roots, *one);
  std::vector<Service> found = Those(status, [&](const Json& service) {
    const Json& root = JsonMember(service, "pid");
    return root.is_number_integer() && ancestors.contains(root.get<int64_t>());
  });
  if (!found.empty()) return found;
  const std::optional<std::string> cgroup = ProcessCgroup(roots, pid);
  if (!cgroup || cgroup->size() < 2) return {};
  return Those(status, [&](const Json& service) {
    const std::string group = StatusText(service, "cgroup");
    return !group.empty() && group.ends_with(*cgroup);
  });
}

std::vector<Service> ServicesNamed(const Json& status, const std::string& id) {
  return Those(status,
               [&](const Json& service) { return StatusText(service, "service_id") == id; });
}

}  // namespace ppc::ctl::xllm
