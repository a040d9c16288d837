// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/container_paths.h"

#include <cerrno>
#include <deque>
#include <filesystem>
#include <system_error>

namespace ppc::oci {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as the kernel's

std::string RealPath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? "" : real.string();
}

// True if `path` is `top` or below it; "" is the root.
bool IsBelow(const std::string& path, const std::string& top) {
  return path == top || path.starts_with(top + "/");
}

void Prepend(const std::string& path, std::deque<std::string>& names) {
  std::deque<std::string> more;
  for (const fs::path& name : fs::path(path)) {
    if (name != "/" && !name.empty()) more.push_back(name);
  }
  names.insert(names.begin(), more.begin(), more.end());
}

}  // namespace

ContainerPaths::ContainerPaths(const Container& container) : directory_(container.directory) {
  places_.push_back({"", container.root.empty() ? "" : RealPath(container.root)});
  for (const Mount& mount : container.mounts) {
    const Result<std::string> at = Resolve(mount.destination);
    if (at) places_.push_back({*at, mount.source.empty() ? "" : RealPath(mount.source)});
  }
}

const ContainerPaths::Place* ContainerPaths::PlaceOf(const std::string& at) const {
  const Place* found = nullptr;
  for (const Place& place : places_) {
    if (IsBelow(at, place.at) && (found == nullptr || IsBelow(place.at, found->at))) found = &place;
  }
  return found;
}

Result<std::string> ContainerPaths::Resolve(const std::string& path) const {
  std::deque<std::string> names;
  Prepend(path, names);
  if (!path.starts_with('/')) Prepend(directory_, names);
  std::string at;
  for (int links = 0; !names.empty();) {
    const std::string name = names.front();
    names.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      at.erase(at.empty() ? 0 : at.rfind('/'));
      continue;
    }
    const std::string next = at + "/" + name;
    const Place* place = PlaceOf(next);
    std::error_code error;
    // A mount hides any link below it.
    const fs::path target =
        place == nullptr || place->host.empty() || place->at == next
            ? fs::path()
            : fs::read_symlink(place->host + next.substr(place->at.size()), error);
    if (error || target.empty()) {
      at = next;
      continue;
    }
    if (++links > kMaxLinks) return PosixError(path + " in the container", ELOOP);
    if (target.is_absolute()) at.clear();
    Prepend(target, names);
  }
  return at;
}

Result<std::string> ContainerPaths::ToHost(const std::string& path) const {
  const Result<std::string> at = Resolve(path);
  if (!at) return at.error();
  const Place* place = PlaceOf(*at);
  if (place == nullptr || place->host.empty()) {
    return Error{EXDEV, path +
                            " is on a file system of the container's own; keep the model in its "
                            "image or on a mount of the host"};
  }
  return place->host + at->substr(place->at.size());
}

std::string ContainerPaths::ToContainer(const std::string& host) const {
  const Place* found = nullptr;
  for (const Place& place : places_) {
    if (place.host.empty() || !IsBelow(host, place.host)) continue;
    if (found == nullptr || place.host.size() > found->host.size()) found = &place;
  }
  if (found == nullptr) return "";
  const std::string path = found->at + host.substr(found->host.size());
  return path.empty() ? "/" : path;
}

}  // namespace ppc::oci
