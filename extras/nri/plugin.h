// SPDX-License-Identifier: Apache-2.0
// Owns a plugin's side of an NRI connection: registration, the answers to the runtime, and what its
// events tell of a container.  Opens no socket and does nothing about the events.
// Threads: one.
#ifndef PPC_EXTRAS_NRI_PLUGIN_H_
#define PPC_EXTRAS_NRI_PLUGIN_H_

#include <functional>
#include <string>
#include <string_view>

#include "daemon/base/result.h"
#include "extras/nri/wire.h"
#include "extras/oci/container.h"

namespace ppc::nri {

struct Event {
  enum class What {
    kCreate,  // the container is about to be made; its pid is that of the pod's sandbox
    kStart,   // it is about to run
    kStop,    // it stops, has stopped, or was not made after all
  };
  What what = What::kCreate;
  oci::Container container;
};

class Plugin {
 public:
  using Send = std::function<Status(const std::string& bytes)>;
  using Handle = std::function<void(const Event& event)>;

  // `handle` is called before the runtime is answered if the container starts, so that it is known
  // before it reads; else after.
  Plugin(Send send, Handle handle) : send_(std::move(send)), handle_(std::move(handle)) {}

  // Plugins with a lower index, of two digits, are called earlier.
  Status Register(const std::string& name, const std::string& index);
  // Bytes from the runtime.  EPROTO: it does not speak NRI; EACCES: it refuses the plugin.
  Status Take(std::string_view bytes);

 private:
  Status Answer(const Message& request);

  Send send_;
  Handle handle_;
  Demultiplexer demultiplexer_;
};

}  // namespace ppc::nri

#endif  // PPC_EXTRAS_NRI_PLUGIN_H_
