// SPDX-License-Identifier: Apache-2.0
//
// Where templates are shared: a directory (local, NFS or another shared file system) or etcd.  One
// interface for MAIO and ppcctl; names are service IDs and the parts of a service's nodes.
//
// A store holds one value per name, whole or not at all, with a generation that grows by one at
// each put: a put says which generation it replaces, and of several writers that replace the same
// one exactly one succeeds.
//
// Errors: 0 or a negative errno, and one line in *error that names the store.  Threads: each call
// may wait for a network or a disk, so none is made from a hook; one object is used by one thread
// at a time, several objects on one store by as many threads and processes as there are.
#ifndef POLICIES_MAIO_TEMPLATE_STORE_H_
#define POLICIES_MAIO_TEMPLATE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/digests.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {

class TemplateStore {
 public:
  struct Value {
    std::vector<uint8_t> bytes;
    uint64_t generation = 0;
  };

  TemplateStore() = default;
  TemplateStore(const TemplateStore&) = delete;
  TemplateStore& operator=(const TemplateStore&) = delete;
  virtual ~TemplateStore() = default;

  // Sorted.
  virtual int List(std::vector<std::string>* names, std::string* error) = 0;
  // -ENOENT: there is none.
  virtual int Get(const std::string& name, Value* out, std::string* error) = 0;
  // As generation expected + 1, if the present one is `expected` (0: there is none).  -ESTALE: it
  // is another, or was as soon as this one was there.
  virtual int Put(const std::string& name, const std::vector<uint8_t>& bytes, uint64_t expected,
                  std::string* error) = 0;
  // -ENOENT: there was none.
  virtual int Remove(const std::string& name, std::string* error) = 0;
};

// "dir:/path" or "etcd:http://host:port/prefix".  Asks nobody yet.  nullptr: *error.
std::unique_ptr<TemplateStore> OpenStore(const std::string& spec, std::string* error);
inline constexpr uint32_t kStoreTimeoutMs = 3000;  // of one call to a store on the network
std::unique_ptr<TemplateStore> DirectoryStore(const std::string& root);
std::unique_ptr<TemplateStore> EtcdStore(const std::string& url, uint32_t timeout_ms,
                                         std::string* error);

// Part of node `node` of a service, "" when the name would be too long.
std::string PartName(const std::string& service_id, uint32_t node);
// A service ID or the name of a part.
bool ValidStoreName(const std::string& name);
// Of a part its service's, else the name.
std::string ServiceOfName(const std::string& name);

// A secret shared by those that may write: templates carry an HMAC-SHA256 of it, and one without,
// or with another, is refused.
class StoreKey {
 public:
  // A file of root's that nobody else may read, 16 to 4096 bytes.
  static std::optional<StoreKey> Load(const std::string& path, std::string* error);
  explicit StoreKey(std::string secret) : secret_(std::move(secret)) {}

  Sha256Digest Digest(const std::string& name, const std::vector<uint8_t>& bytes) const;

 private:
  std::string secret_;
};

// Appends the seal of the key to a template that is to lie in a store under this name.
void Seal(const StoreKey& key, const std::string& name, std::vector<uint8_t>* bytes);
// Takes the seal off; false, with *error, when key is not nullptr and it is missing or wrong.
bool Unseal(const StoreKey* key, const std::string& name, std::vector<uint8_t>* bytes,
            std::string* error);

// The same for templates.  -EBADMSG: damaged, another service's, or not sealed with this key.
int GetTemplate(TemplateStore* store, const StoreKey* key, const std::string& name, Template* out,
                uint64_t* generation, std::string* error);
// t.generation becomes expected + 1.
int PutTemplate(TemplateStore* store, const StoreKey* key, const std::string& name, Template* t,
                uint64_t expected, std::string* error);

// Merges the parts of all `nodes` of a service, if they are all there, and puts the result unless
// it is there already: every node may do it, at any time and at the same time.  0: *out is the
// whole template; -ENOENT: parts are missing.
int MergeParts(TemplateStore* store, const StoreKey* key, const std::string& service_id,
               uint32_t nodes, Template* out, std::string* error);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_STORE_H_
