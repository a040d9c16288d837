// SPDX-License-Identifier: Apache-2.0
//
// What all stores have in common: names, seals, whole templates, and the merging of parts.
#include "policies/maio/template/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "policies/maio/template/template_compare.h"
#include "policies/maio/template/template_files.h"

namespace ppc::maio {
namespace {

constexpr char kSealMagic[] = "PPCTMAC1";
constexpr size_t kSealMagicBytes = sizeof(kSealMagic) - 1;
constexpr size_t kSealBytes = kSealMagicBytes + std::tuple_size_v<Sha256Digest>;
constexpr size_t kMinSecret = 16;
constexpr size_t kMaxSecret = 4096;
constexpr std::string_view kPartSuffix = ".part";
constexpr int kMergeTries = 200;  // of nodes that put at the same time all but one try again

bool IsSealed(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= kSealBytes &&
         std::memcmp(bytes.data() + bytes.size() - kSealBytes, kSealMagic, kSealMagicBytes) == 0;
}

// Where "<service>.n<number>.part" has its last but one dot; npos: it is no part.
size_t PartAt(const std::string& name) {
  if (!name.ends_with(kPartSuffix)) return std::string::npos;
  const size_t end = name.size() - kPartSuffix.size();
  const size_t at = end == 0 ? std::string::npos : name.rfind(".n", end - 1);
  if (at == std::string::npos || at + 2 == end || end - at > 7) return std::string::npos;
  const bool is_number = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                                     name.begin() + static_cast<std::ptrdiff_t>(end),
                                     [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? at : std::string::npos;
}

}  // namespace

std::string PartName(const std::string& service_id, uint32_t node) {
  return service_id + ".n" + std::to_string(node) + std::string(kPartSuffix);
}

std::string ServiceOfName(const std::string& name) { return name.substr(0, PartAt(name)); }

bool ValidStoreName(const std::string& name) { return ValidServiceId(ServiceOfName(name)); }

std::unique_ptr<TemplateStore> OpenStore(const std::string& spec, std::string* error) {
  if (spec.starts_with("dir:/")) return DirectoryStore(spec.substr(4));
  if (spec.starts_with("etcd:")) return EtcdStore(spec.substr(5), kStoreTimeoutMs, error);
  *error = "store '" + spec + "' is neither dir:/PATH nor etcd:http://HOST:PORT/PREFIX";
  return nullptr;
}

std::optional<StoreKey> StoreKey::Load(const std::string& path, std::string* error) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st = {};
  if (fd.get() < 0 || fstat(fd.get(), &st) != 0) {
    *error = "store key " + path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 077) != 0) {
    *error =
        "store key " + path + ": must be a file of root's with mode 0600 (chown root, chmod 600)";
    return std::nullopt;
  }
  std::string secret(kMaxSecret + 1, '\0');
  const ssize_t n = read(fd.get(), secret.data(), secret.size());
  secret.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  while (secret.ends_with('\n')) secret.pop_back();
  if (secret.size() < kMinSecret || secret.size() > kMaxSecret) {
    *error = "store key " + path + ": must have 16 to 4096 bytes";
    return std::nullopt;
  }
  return StoreKey(std::move(secret));
}

// Of the name, a zero byte and the template.
Sha256Digest StoreKey::Digest(const std::string& name, const std::vector<uint8_t>& bytes) const {
  const std::span text(reinterpret_cast<const uint8_t*>(name.c_str()), name.size() + 1);
  return HmacSha256(secret_, {text, bytes});
}

void Seal(const StoreKey& key, const std::string& name, std::vector<uint8_t>* bytes) {
  const Sha256Digest digest = key.Digest(name, *bytes);
  bytes->insert(bytes->end(), kSealMagic, kSealMagic + kSealMagicBytes);
  bytes->insert(bytes->end(), digest.begin(), digest.end());
}

bool Unseal(const StoreKey* key, const std::string& name, std::vector<uint8_t>* bytes,
            std::string* error) {
  const bool is_sealed = IsSealed(*bytes);
  Sha256Digest seal = {};
  if (is_sealed) {
    std::copy_n(bytes->end() - static_cast<std::ptrdiff_t>(seal.size()), seal.size(), seal.begin());
    bytes->resize(bytes->size() - kSealBytes);
  }
  if (key == nullptr) return true;
  if (!is_sealed) {
    *error = name + ": refused: it is not sealed with the store's key";
    return false;
  }
  const Sha256Digest wanted = key->Digest(name, *bytes);
  uint8_t differs = 0;  // in a time that does not tell where
  for (size_t i = 0; i < seal.size(); i++) differs |= seal[i] ^ wanted[i];
  if (differs != 0) *error = name + ": refused: it is sealed with another key, or was changed";
  return differs == 0;
}

int GetTemplate(TemplateStore* store, const StoreKey* key, const std::string& name, Template* out,
                uint64_t* generation, std::string* error) {
  TemplateStore::Value value;
  if (const int rc = store->Get(name, &value, error); rc != 0) return rc;
  if (generation != nullptr) *generation = value.generation;
  if (!Unseal(key, name, &value.bytes, error)) return -EBADMSG;
  std::string problem;
  std::optional<Template> t = Decode(value.bytes, &problem);
  if (t && t->service_id != ServiceOfName(name)) problem = "it is of service " + t->service_id;
  if (!problem.empty()) {
    *error = name + ": refused: " + problem;
    return -EBADMSG;
  }
  *out = std::move(*t);
  return 0;
}

int PutTemplate(TemplateStore* store, const StoreKey* key, const std::string& name, Template* t,
                uint64_t expected, std::string* error) {
  if (const std::string problem = Check(*t); !problem.empty()) {
    *error = name + ": not stored: " + problem;
    return -EINVAL;
  }
  t->generation = expected + 1;
  std::vector<uint8_t> bytes = Encode(*t);
  if (key != nullptr) Seal(*key, name, &bytes);
  return store->Put(name, bytes, expected, error);
}

int MergeParts(TemplateStore* store, const StoreKey* key, const std::string& service_id,
               uint32_t nodes, Template* out, std::string* error) {
  std::vector<Template> parts(nodes);
  for (uint32_t node = 0; node < nodes; node++) {
    const std::string name = PartName(service_id, node);
    if (const int rc = GetTemplate(store, key, name, &parts[node], nullptr, error); rc != 0)
      return rc;
    parts[node].generation = 0;  // of the part, which says nothing of the whole
  }
  std::optional<Template> merged = Merge(parts, error);
  if (!merged) return -EBADMSG;
  parts.clear();
  for (int again = 0; again < kMergeTries; again++) {
    Template known;
    uint64_t generation = 0;
    int rc = GetTemplate(store, key, service_id, &known, &generation, error);
    if (rc != 0 && rc != -ENOENT && rc != -EBADMSG) return rc;
    if (rc == 0) {
      merged->generation = known.generation;
      // Of a later recording than these parts are of: its nodes' parts are on their way.
      const bool is_later = known.created_ns > merged->created_ns && (known.flags & kMerged) != 0;
      if (is_later || Encode(known) == Encode(*merged)) {
        *out = std::move(known);
        return 0;
      }
    }
    rc = PutTemplate(store, key, service_id, &*merged, generation, error);
    if (rc == -ESTALE) continue;
    if (rc == 0) *out = std::move(*merged);
    return rc;
  }
  *error = service_id + ": other nodes put it all the time";
  return -EAGAIN;
}

}  // namespace ppc::maio
