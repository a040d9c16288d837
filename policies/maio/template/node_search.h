// SPDX-License-Identifier: Apache-2.0
//
// Of a service on several nodes that reads pages which none of this node's groups
// has: the nodes have changed places since the recording, so whose part is it that
// this one reads?
#ifndef POLICIES_MAIO_TEMPLATE_NODE_SEARCH_H_
#define POLICIES_MAIO_TEMPLATE_NODE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/maio/base/background.h"
#include "policies/maio/base/config.h"
#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {

class NodeSearch {
 public:
  // Told of the other node's part; it is not searched on until GoOn, or never, after End.
  using Found = std::function<void(Template own)>;

  NodeSearch(const ppc_context* context, Background background, ServiceSpec spec, Found found)
      : directory_(context->template_dir),
        background_(std::move(background)),
        spec_(std::move(spec)),
        found_(std::move(found)) {}

  // A page that no group has.
  void NoteUnknown(const std::string& path, uint64_t page);
  void GoOn() { is_seeking_ = false; }
  void End();

 private:
  struct Observed {
    std::string path;
    uint64_t page = 0;
  };
  static std::optional<ServiceSpec> WhoReads(const Template& whole, const ServiceSpec& spec,
                                             const std::vector<Observed>& observed);

  const std::string directory_;
  const Background background_;
  const ServiceSpec spec_;
  const Found found_;
  std::vector<Observed> observed_;
  bool is_seeking_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expires with this object
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_NODE_SEARCH_H_
