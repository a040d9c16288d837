// SPDX-License-Identifier: Apache-2.0
//
// Templates as files: <store>/<first two characters>/<service ID>.ppct.  The
// store may be shared by several nodes (NFS): a template appears whole or not
// at all, and the last writer wins.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "policies/maio/template/store.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_files.h"

namespace ppc::maio {
namespace {

int Fail(int code, const std::string& what, std::string* error) {
  *error = what + ": " + std::strerror(code);
  return -code;
}

}  // namespace

std::string TemplatePath(const std::string& store, const std::string& service_id) {
  if (!ValidServiceId(service_id)) return "";
  return store + "/" + service_id.substr(0, 2) + "/" + service_id + ".ppct";
}

std::string PartPath(const std::string& store, const std::string& service_id, uint32_t node) {
  if (!ValidServiceId(service_id)) return "";
  return store + "/" + service_id.substr(0, 2) + "/" + PartName(service_id, node) + ".ppct";
}

int Store(const std::string& store, const Template& t, std::string* error) {
  return StoreAs(store, t.service_id, t, error);
}

int StoreAs(const std::string& store, const std::string& name, const Template& t,
            std::string* error) {
  std::string problem = Check(t);
  if (!problem.empty()) {
    *error = "template not stored: " + problem;
    return -EINVAL;
  }
  const std::string dir = store + "/" + name.substr(0, 2);
  const std::string path = dir + "/" + name + ".ppct";
  for (const std::string& d : {store, dir}) {
    if (int rc = EnsureDirectory(d); rc != 0) return Fail(rc, "cannot create " + d, error);
  }
  SweepTemporaries(dir);
  std::string tmp;
  int rc = WriteTemporary(path, Encode(t), &tmp);
  if (rc == 0 && rename(tmp.c_str(), path.c_str()) != 0) {
    rc = errno;
    unlink(tmp.c_str());
  }
  if (rc != 0) return Fail(rc, "cannot write " + path, error);
  if (rc = SyncDirectory(dir); rc != 0) return Fail(rc, "cannot sync " + dir, error);
  return 0;
}

int Load(const std::string& path, Template* out, std::string* error) {
  std::vector<uint8_t> bytes;
  error->clear();
  int rc = ReadTemplateFile(path, &bytes, error);
  // On NFS a file that another node has just replaced: its successor is there.
  for (int again = 0; rc == ESTALE && again < 3; again++)
    rc = ReadTemplateFile(path, &bytes, error);
  if (rc != 0) return error->empty() ? Fail(rc, path, error) : -rc;
  std::string problem;
  Unseal(nullptr, "", &bytes, &problem);  // of a store's file
  std::optional<Template> t = Decode(bytes, &problem);
  if (!t) {
    *error = path + ": unusable template: " + problem + "; remove it and it is recorded anew";
    return -EINVAL;
  }
  *out = std::move(*t);
  return 0;
}

}  // namespace ppc::maio
