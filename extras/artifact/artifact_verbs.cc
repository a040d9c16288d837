// SPDX-License-Identifier: Apache-2.0
// ppcctl artifact capture|restore|verify|list|rm; needs no daemon.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <optional>
#include <unordered_set>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/wire/service_id.h"
#include "extras/artifact/capture.h"
#include "extras/artifact/objects.h"
#include "extras/artifact/options.h"
#include "extras/artifact/restore.h"
#include "extras/artifact/store.h"
#include "extras/artifact/verbs.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

using artifact::BundleName;
using artifact::Entry;
using artifact::Manifest;
using artifact::Store;

// Longest wait for the lock of a removal, capture or restore.
constexpr int kPatienceMs = 5000;

struct BundleRequest {
  std::string service_id;
  artifact::Key key;
  std::vector<artifact::Root> roots;
};

// EINVAL: wrong usage.
Result<BundleRequest> ReadBundleRequest(const Args& args) {
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return Error{EINVAL, id.error().message};
  if (Status status = control::CheckServiceId(*id); !status) return status.error();
  Result<artifact::Key> key = ArtifactKey(args, args.command);
  if (!key) return key.error();
  Result<std::vector<artifact::Root>> roots = ArtifactRoots(args);
  if (!roots) return roots.error();
  return BundleRequest{*id, *std::move(key), *std::move(roots)};
}

std::string TimeText(int64_t ns) {
  const auto seconds = static_cast<time_t>(ns / static_cast<int64_t>(kNsPerSec));
  tm parts{};
  char text[32];
  const size_t bytes =
      strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
  return {text, bytes};
}

struct Contents {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;
  std::string problem;  // the first problem
};

// Checks names and sizes, or with `thoroughly` every byte.
Contents Examine(const Store& store, const Manifest& manifest, bool thoroughly) {
  Contents contents;
  std::unordered_set<std::string> seen;
  for (const Entry& entry : manifest.entries) {
    if (entry.kind != artifact::Kind::kFile) continue;
    ++contents.files;
    contents.bytes += entry.size;
    if (!seen.insert(Store::ObjectPath(entry)).second) continue;
    struct stat info {};
    const UniqueFd object = store.OpenObject(entry);
    if (object.IsValid() && fstat(object.Get(), &info) == 0) {
      contents.stored_bytes += static_cast<uint64_t>(info.st_size);
    }
    std::string problem;
    if (thoroughly) {
      const Result<bool> read = ReadObject(store, entry, -1);
      if (!read) problem = read.error().message;
    } else if (!object.IsValid()) {
      problem = "object " + entry.digest + " of '" + entry.path + "' is missing";
    }
    if (contents.problem.empty()) contents.problem = problem;
  }
  return contents;
}

// A bundle's description for output, and whether it is complete.
struct Description {
  Json json;
  bool is_whole = false;
};
Description Describe(const Store& store, const BundleName& name, bool thoroughly) {
  Description description{{{"bundle", name.Text()}, {"service_id", name.service_id}}};
  Json& json = description.json;
  const Result<Manifest> manifest = store.Load(name);
  if (!manifest) {
    json["error"] = manifest.error().message;
    return description;
  }
  const Contents contents = Examine(store, *manifest, thoroughly);
  json["captured"] = TimeText(manifest->captured_ns);
  json["files"] = contents.files;
  json["bytes"] = contents.bytes;
  json["stored_bytes"] = contents.stored_bytes;
  json["key"] = manifest->key;
  json["roots"] = Json::object();
  for (const artifact::Root& root : manifest->roots) json["roots"][root.name] = root.directory;
  description.is_whole = contents.problem.empty();
  if (!description.is_whole) {
    json["error"] = "bundle " + name.Text() + ": " + contents.problem +
                    "; capture anew after: ppcctl artifact rm " + name.Text();
  }
  return description;
}

// Bundles of the operand ID or ID/KEY, or all.  ENOENT: none.
Result<std::vector<BundleName>> SelectBundles(const Store& store, const Args& args) {
  Result<std::vector<BundleName>> names = store.List();
  if (!names || args.operands.empty()) return names;
  const Result<BundleName> given = artifact::ReadBundleName(args.operands[0]);
  if (!given) return given.error();
  std::erase_if(*names, [&](const BundleName& name) {
    return name.service_id != given->service_id ||
           (!given->key_id.empty() && name.key_id != given->key_id);
  });
  if (names->empty()) {
    return Error{ENOENT, "there is no bundle " + args.operands[0] +
                             "; `ppcctl artifact list` shows what there is"};
  }
  return names;
}

int ReportError(const Error& error) {
  return error.code == EINVAL ? WrongUsage(error.message) : Failed(error);
}

void PrintLine(const Json& entry) {
  if (entry.contains("error")) return Complain(entry.value("error", ""));
  std::printf("%s  %s  %llu files  %s, stored %s\n", entry.value("bundle", "").c_str(),
              entry.value("captured", "").c_str(),
              static_cast<unsigned long long>(entry.value("files", uint64_t{0})),
              HumanBytes(entry.value("bytes", uint64_t{0})).c_str(),
              HumanBytes(entry.value("stored_bytes", uint64_t{0})).c_str());
  std::string parts;
  for (const auto& [part, value] : entry["key"].items()) {
    std::string text = value.get<std::string>();
    if (part == "cpu") text = text.substr(0, text.find(' ')) + " ...";
    parts += (parts.empty() ? "" : ", ") + part + " " + text;
  }
  std::printf("  %s\n", parts.c_str());
}

// `list` and `verify`: prints the bundles as lines or as one JSON object.
int PrintBundles(const Args& args, bool thoroughly) {
  const Store::Place place = ArtifactPlace(args);
  const Result<Store> store = Store::Open(place, Store::Use::kRead);
  Json list = Json::array();
  bool is_whole = true;
  if (!store && (store.error().code != ENOENT || !args.operands.empty()))
    return ReportError(store.error());
  if (store) {
    const Result<std::vector<BundleName>> names = SelectBundles(*store, args);
    if (!names) return ReportError(names.error());
    for (const BundleName& name : *names) {
      Description description = Describe(*store, name, thoroughly);
      is_whole = is_whole && description.is_whole;
      if (!WantsJson()) PrintLine(description.json);
      list.push_back(std::move(description.json));
    }
  }
  if (WantsJson()) {
    PrintJson({{"store", store ? store->path() : place.directory}, {"bundles", list}});
  }
  return is_whole || !thoroughly ? kExitOk : kExitFailed;
}

Result<artifact::Compress> ReadCompress(const Args& args) {
  const std::string word = args.Get("--compress", "auto");
  if (word == "auto") return artifact::Compress::kAuto;
  if (word == "always") return artifact::Compress::kAlways;
  if (word == "never") return artifact::Compress::kNever;
  return Error{EINVAL, "--compress '" + word + "' is not auto, always or never"};
}

int ReportMismatch(const BundleRequest& request, const artifact::Match& match) {
  if (match.differences.empty()) {
    return Failed({ENOENT, "nothing was captured of service " + request.service_id +
                               " yet; ppcctl artifact capture does so"});
  }
  Complain(Error{ESTALE, "nothing is restored: service " + request.service_id +
                             " was captured for another key: " + TextOf(match.differences)});
  if (!WantsJson()) return kExitFailed;
  Json differences = Json::array();
  for (const artifact::Difference& difference : match.differences) {
    Json entry{{"part", difference.part}};
    if (difference.here) entry["here"] = *difference.here;
    if (difference.captured) entry["captured"] = *difference.captured;
    differences.push_back(entry);
  }
  PrintJson({{"ok", false},
             {"exit_status", kExitFailed},
             {"files", 0},
             {"nearest", match.nearest.Text()},
             {"differences", differences}});
  return kExitFailed;
}

}  // namespace

int ArtifactCapture(const Args& args) {
  const Result<BundleRequest> request = ReadBundleRequest(args);
  if (!request) return ReportError(request.error());
  const Result<artifact::Compress> compress = ReadCompress(args);
  if (!compress) return ReportError(compress.error());
  const Result<uint64_t> limit = ParseSize(args.Get("--limit", kArtifactLimit));
  if (!limit) return WrongUsage("--limit: " + limit.error().message);
  Result<Store> store = Store::Open(ArtifactPlace(args), Store::Use::kWrite);
  if (!store) return Failed(store.error());
  const Result<artifact::Captured> captured = artifact::Capture(
      *store,
      {request->service_id, request->key, request->roots, *compress, *limit, std::stop_token()});
  if (!captured) return Failed(captured.error());
  if (captured->left_out.count > 0) {
    Complain("warning: " + std::to_string(captured->left_out.count) +
             " left out, the first: " + captured->left_out.first);
  }
  if (WantsJson()) {
    PrintJson({{"bundle", captured->name.Text()},
               {"service_id", captured->name.service_id},
               {"files", captured->files},
               {"bytes", captured->bytes},
               {"stored_bytes", captured->stored_bytes},
               {"unread", captured->unread},
               {"unchanged", captured->is_unchanged},
               {"left_out", captured->left_out.count}});
    return kExitOk;
  }
  std::printf("%s  %llu files, %s, %s\n", captured->name.Text().c_str(),
              static_cast<unsigned long long>(captured->files), HumanBytes(captured->bytes).c_str(),
              captured->is_unchanged
                  ? "unchanged"
                  : (HumanBytes(captured->stored_bytes) + " added to the store").c_str());
  return kExitOk;
}

int ArtifactRestore(const Args& args) {
  const Result<BundleRequest> request = ReadBundleRequest(args);
  if (!request) return ReportError(request.error());
  const Result<Store> store = Store::Open(ArtifactPlace(args), Store::Use::kRead);
  if (!store) return Failed(store.error());
  const Result<artifact::Match> match =
      artifact::FindBundle(*store, request->service_id, request->key);
  if (!match) return Failed(match.error());
  if (!match->manifest) return ReportMismatch(*request, *match);
  const Result<artifact::Restored> restored =
      artifact::Restore(*store, *match->manifest, request->roots);
  if (!restored) return Failed(restored.error());
  const std::string bundle = request->service_id + "/" + artifact::KeyIdOf(request->key);
  if (WantsJson()) {
    PrintJson({{"bundle", bundle},
               {"service_id", request->service_id},
               {"files", restored->files},
               {"bytes", restored->bytes},
               {"cloned", restored->cloned},
               {"kept", restored->kept}});
    return kExitOk;
  }
  std::printf("%s  %llu files restored, %s; %llu were there\n", bundle.c_str(),
              static_cast<unsigned long long>(restored->files), HumanBytes(restored->bytes).c_str(),
              static_cast<unsigned long long>(restored->kept));
  return kExitOk;
}

int ArtifactVerify(const Args& args) { return PrintBundles(args, /*thoroughly=*/true); }

int ArtifactList(const Args& args) { return PrintBundles(args, /*thoroughly=*/false); }

int ArtifactRm(const Args& args) {
  Result<Store> store = Store::Open(ArtifactPlace(args), Store::Use::kWrite);
  if (!store) return Failed(store.error());
  // Without an operand: no bundle, only unreferenced objects.
  const Result<std::vector<BundleName>> names =
      args.operands.empty() ? std::vector<BundleName>() : SelectBundles(*store, args);
  if (!names) return ReportError(names.error());
  for (const BundleName& name : *names) {
    if (Status status = store->Remove(name); !status) return Failed(status.error());
  }
  const Result<size_t> swept = store->Sweep(kPatienceMs);
  if (!swept) Complain("warning: " + swept.error().message);
  if (WantsJson()) {
    PrintJson({{"bundles", names->size()}, {"objects", swept ? *swept : 0}});
  } else {
    std::printf("%zu bundles removed, and %zu objects\n", names->size(), swept ? *swept : 0);
  }
  return kExitOk;
}

}  // namespace ppc::ctl
