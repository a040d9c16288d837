// SPDX-License-Identifier: Apache-2.0
// In place of extras/etcd/store_etcd.cc.
#include "policies/maio/template/store.h"

namespace ppc::maio {

std::unique_ptr<TemplateStore> EtcdStore(const std::string& url, uint32_t /*timeout_ms*/,
                                         std::string* error) {
  *error =
      "store 'etcd:" + url + "': this build has no etcd; use dir:/PATH, or build with extras/etcd";
  return nullptr;
}

}  // namespace ppc::maio
