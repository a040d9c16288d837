// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/service_operations.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace ppc::control {
namespace {

void PassOn(const Result<Json>& answer, const Reply& reply) {
  if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
  reply(answer ? OkAnswer(*answer) : OkAnswer());
}

}  // namespace

ServiceOperations::ServiceOperations(EventLoop& loop, const Options& options,
                                     const Cgroups& cgroups, const Registrations& registrations,
                                     const SavedRegistrations& saved, MetricsPage& metrics)
    : registrations_(registrations),
      saved_(saved),
      metrics_(metrics),
      roots_(loop, options.roots,
             [this](const std::string& handle, const std::string& id) {
               ends_.TakeEndOfRoot(handle, id);
             }),
      ends_(loop, registrations, saved, roots_),
      groups_(loop, options.watch_period, cgroups, registrations, ends_),
      new_services_(options.roots, cgroups, registrations, roots_),
      starts_(loop, registrations, saved, new_services_, roots_, groups_, ends_) {}

Result<ServiceOperations::Named> ServiceOperations::Find(const Json& body, const Peer& peer) const {
  const Result<Registration*> found =
      registrations_.FindFor(peer, body.at("mount").get<std::string>());
  if (!found) return found.error();
  const Result<Service*> service = (*found)->services().FindFor(
      peer, body.at("service_id").get<std::string>(), (*found)->mount().path);
  if (!service) return service.error();
  return Named{*found, (*service)->id};
}

void ServiceOperations::Ready(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  const std::string& id = found->id;
  Registration& registration = *found->registration;
  registration.Control(
      {{"op", "service_ready"}, {"service_id", id}},
      [this, id, reply, handle = registration.handle()](const Result<Json>& answer) {
        if (!answer && !IsUnknownToPolicy(answer)) return reply(ErrorAnswer(answer.error()));
        if (Registration* ready = registrations_.FindByHandle(handle); ready != nullptr) {
          Service* service = ready->services().Find(id);
          if (service != nullptr) {
            metrics_.NoteReady(ready->mount().path, *service, answer ? *answer : Json::object());
          }
          saved_.Save(*ready, id);
        }
        PassOn(answer, reply);
      });
}

// "ready" is what service_ready says.
void ServiceOperations::Phase(const Json& body, const Peer& peer, const Reply& reply) {
  const std::string phase = body.at("phase").get<std::string>();
  if (phase == "ready") return Ready(body, peer, reply);
  constexpr std::array kPhases = {"init", "weights", "compile", "graphs"};
  if (std::ranges::find(kPhases, phase) == kPhases.end()) {
    return reply(ErrorAnswer(
        Error{EINVAL, "no phase \"" + phase + "\"; init, weights, compile, graphs or ready"}));
  }
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  found->registration->Control(
      {{"op", "service_phase"}, {"service_id", found->id}, {"phase", phase}},
      [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

void ServiceOperations::Fail(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  int64_t wait_s = 0;
  if (body.contains("wait_s")) {
    wait_s = body["wait_s"].get<int64_t>();
    if (wait_s < 1 || wait_s > ServiceEnds::kMostWaitS) {
      return reply(ErrorAnswer(Error{EINVAL, "\"wait_s\" is " + std::to_string(wait_s) + "; 1 to " +
                                                 std::to_string(ServiceEnds::kMostWaitS)}));
    }
  }
  Registration& registration = *found->registration;
  ends_.Fail(registration, *registration.services().Find(found->id), wait_s, reply);
}

void ServiceOperations::Stop(const Json& body, const Peer& peer, const Reply& reply) {
  const Result<Named> found = Find(body, peer);
  if (!found) return reply(ErrorAnswer(found.error()));
  ends_.Stop(*found->registration, found->id, "asked",
             [reply](const Result<Json>& answer) { PassOn(answer, reply); });
}

void ServiceOperations::WatchGroupsOf(const Registration& adopted) {
  if (!adopted.services().Claimed([](const Owner&) { return true; }).empty()) groups_.Begin();
}

void ServiceOperations::WatchRootsOf(Registration& adopted) {
  for (const Service* service : adopted.services().InOrder()) {
    if (service->root_pid != 0) roots_.Watch(adopted.handle(), *service);
  }
}

void ServiceOperations::Leave(Registration& gone) {
  for (const Service* service : gone.services().InOrder()) {
    roots_.Unwatch(gone.handle(), service->id);
  }
}

}  // namespace ppc::control
