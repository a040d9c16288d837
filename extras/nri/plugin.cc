// SPDX-License-Identifier: Apache-2.0
// Numbers of fields and events are those of nri.pkg.api.v1alpha1 (pkg/api/api.proto of NRI).
#include "extras/nri/plugin.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>

namespace ppc::nri {
namespace {

// Fields of ttrpc's messages.
constexpr uint32_t kService = 1, kMethod = 2, kRequestPayload = 3;
constexpr uint32_t kStatus = 1, kResponsePayload = 2;
constexpr uint32_t kStatusText = 2;

// RegisterPlugin, Configure, Synchronize.
constexpr uint32_t kPluginName = 1, kPluginIndex = 2;
constexpr uint32_t kEvents = 2;
constexpr uint32_t kMoreToCome = 3, kMoreIsTaken = 2;
// Requests about a container, and StateChange, which are the same behind its number.
constexpr uint32_t kPod = 1, kContainer = 2;
constexpr uint32_t kEvent = 1, kChangedPod = 2, kChangedContainer = 3;

constexpr uint32_t kPodAnnotations = 6, kPodPid = 9;
constexpr uint32_t kId = 1, kName = 3, kAnnotations = 6, kArgs = 7, kEnv = 8, kMounts = 9,
                   kPid = 12;
constexpr uint32_t kDestination = 1, kType = 2, kSource = 3, kMountOptions = 4;
constexpr uint32_t kEntryKey = 1, kEntryValue = 2;

enum EventNumber { kCreateContainer = 4, kStartContainer = 6, kStopContainer = 10 };
constexpr uint64_t kWantedEvents =
    1U << (kCreateContainer - 1) | 1U << (kStartContainer - 1) | 1U << (kStopContainer - 1);

constexpr uint32_t kRegisterStream = 1;

template <typename Call>
void ForEach(std::string_view message, uint32_t key, const Call& call) {
  Fields fields(message);
  for (Field field; fields.Next(&field);) {
    if (field.key == key) call(field.bytes);
  }
}

void TakeAnnotations(std::string_view message, uint32_t key, oci::Container& container) {
  ForEach(message, key, [&](std::string_view entry) {
    container.annotations[std::string(BytesOf(entry, kEntryKey))] = BytesOf(entry, kEntryValue);
  });
}

oci::Mount MountOf(std::string_view message) {
  bool is_bind = BytesOf(message, kType) == "bind";
  ForEach(message, kMountOptions, [&](std::string_view option) {
    is_bind = is_bind || option == "bind" || option == "rbind";
  });
  return {std::string(BytesOf(message, kDestination)),
          is_bind ? std::string(BytesOf(message, kSource)) : ""};
}

int ProcessOf(std::string_view message, uint32_t key) {
  return static_cast<int>(std::min<uint64_t>(NumberOf(message, key), INT_MAX));
}

oci::Container ContainerOf(std::string_view pod, std::string_view message, Event::What what) {
  oci::Container container;
  container.id = BytesOf(message, kId);
  container.pid = what == Event::What::kCreate ? ProcessOf(pod, kPodPid) : ProcessOf(message, kPid);
  container.has_stopped = what == Event::What::kStop;
  TakeAnnotations(pod, kPodAnnotations, container);
  TakeAnnotations(message, kAnnotations, container);
  // Runtimes name it each in their own way.
  container.annotations["io.kubernetes.container.name"] = BytesOf(message, kName);
  container.annotations.erase("io.kubernetes.cri.container-name");
  // The sandbox's, of the pod.
  container.annotations.erase("io.kubernetes.cri.container-type");
  container.annotations.erase("io.kubernetes.cri-o.ContainerType");
  ForEach(message, kArgs, [&](std::string_view word) { container.command.emplace_back(word); });
  ForEach(message, kEnv, [&](std::string_view variable) {
    const size_t equals = variable.find('=');
    if (equals == std::string_view::npos) return;
    container.environment[std::string(variable.substr(0, equals))] = variable.substr(equals + 1);
  });
  ForEach(message, kMounts,
          [&](std::string_view mount) { container.mounts.push_back(MountOf(mount)); });
  return container;
}

std::optional<Event::What> WhatOf(std::string_view method, uint64_t number) {
  if (method == "CreateContainer") return Event::What::kCreate;
  if (method == "StopContainer") return Event::What::kStop;
  if (method == "StartContainer") return Event::What::kStart;
  if (method != "StateChange" || number != kStartContainer) return std::nullopt;
  return Event::What::kStart;
}

std::optional<Event> EventOf(std::string_view method, std::string_view payload) {
  const bool is_change = method == "StateChange";
  const std::optional<Event::What> what = WhatOf(method, is_change ? NumberOf(payload, kEvent) : 0);
  if (!what) return std::nullopt;
  const std::string_view pod = BytesOf(payload, is_change ? kChangedPod : kPod);
  const std::string_view container = BytesOf(payload, is_change ? kChangedContainer : kContainer);
  Event event{*what, ContainerOf(pod, container, *what)};
  if (!oci::IsContainerId(event.container.id)) return std::nullopt;
  return event;
}

// An empty message, which is "nothing is to be changed", answers everything else.
std::string ReplyTo(std::string_view method, std::string_view payload) {
  if (method == "Configure") return NumberField(kEvents, kWantedEvents);
  if (method == "Synchronize" && NumberOf(payload, kMoreToCome) != 0)
    return NumberField(kMoreIsTaken, 1);
  return "";
}

}  // namespace

Status Plugin::Register(const std::string& name, const std::string& index) {
  const std::string plugin = BytesField(kPluginName, name) + BytesField(kPluginIndex, index);
  const std::string request = BytesField(kService, "nri.pkg.api.v1alpha1.Runtime") +
                              BytesField(kMethod, "RegisterPlugin") +
                              BytesField(kRequestPayload, plugin);
  return send_(Encode({Side::kRuntime, Kind::kRequest, kRegisterStream, request}));
}

Status Plugin::Take(std::string_view bytes) {
  demultiplexer_.Put(bytes);
  while (true) {
    const Result<std::optional<Message>> message = demultiplexer_.Next();
    if (!message) return message.error();
    if (!message->has_value()) return Ok();
    const Message& taken = **message;
    if (taken.side == Side::kPlugin && taken.kind == Kind::kRequest) {
      if (Status status = Answer(taken); !status) return status;
    } else if (const std::string_view error = BytesOf(taken.payload, kStatus); !error.empty()) {
      return Error{EACCES,
                   "the runtime refuses the plugin: " + std::string(BytesOf(error, kStatusText))};
    }
  }
}

Status Plugin::Answer(const Message& request) {
  const std::string_view method = BytesOf(request.payload, kMethod);
  const std::string_view payload = BytesOf(request.payload, kRequestPayload);
  const std::optional<Event> event = EventOf(method, payload);
  const bool is_first = event && event->what == Event::What::kStart;
  if (is_first) handle_(*event);
  const std::string response = BytesField(kResponsePayload, ReplyTo(method, payload));
  Status status = send_(Encode({Side::kPlugin, Kind::kResponse, request.stream, response}));
  if (event && !is_first) handle_(*event);
  return status;
}

}  // namespace ppc::nri
