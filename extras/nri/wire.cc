// SPDX-License-Identifier: Apache-2.0
#include "extras/nri/wire.h"

#include <cerrno>
#include <utility>

namespace ppc::nri {
namespace {

// The encoding of a field.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr int kVarintBits = 7;
constexpr int kMaxVarintShift = 63;

constexpr size_t kFrameHeaderBytes = 8;     // connection, size
constexpr size_t kMessageHeaderBytes = 10;  // size, stream, kind, flags
constexpr size_t kMaxMessageBytes = 4 << 20;

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

uint32_t BigEndianAt(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string Varint(uint64_t number) {
  std::string bytes;
  for (; number >= 1U << kVarintBits; number >>= kVarintBits)
    bytes += static_cast<char>(number | 1U << kVarintBits);
  return bytes + static_cast<char>(number);
}

}  // namespace

std::optional<uint64_t> Fields::Varint() {
  uint64_t number = 0;
  for (int shift = 0; shift <= kMaxVarintShift && !rest_.empty(); shift += kVarintBits) {
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
  return std::nullopt;
}

std::optional<std::string_view> Fields::Bytes(uint64_t size) {
  if (size > rest_.size()) return std::nullopt;
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

bool Fields::Break() {
  is_broken_ = true;
  return false;
}

bool Fields::Next(Field* field) {
  if (rest_.empty() || is_broken_) return false;
  const std::optional<uint64_t> tag = Varint();
  if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return Break();
  *field = Field{static_cast<uint32_t>(*tag >> 3), 0, {}};
  const auto type = static_cast<int>(*tag & 7);
  if (type == kFixed64 || type == kFixed32) return Bytes(type == kFixed64 ? 8 : 4) || Break();
  if (type != kVarint && type != kBytes) return Break();
  const std::optional<uint64_t> number = Varint();
  if (!number) return Break();
  if (type == kVarint) {
    field->number = *number;
    return true;
  }
  const std::optional<std::string_view> bytes = Bytes(*number);
  if (bytes) field->bytes = *bytes;
  return bytes || Break();
}

std::string_view BytesOf(std::string_view message, uint32_t key) {
  std::string_view found;
  Fields fields(message);
  for (Field field; fields.Next(&field);) {
    if (field.key == key) found = field.bytes;
  }
  return found;
}

uint64_t NumberOf(std::string_view message, uint32_t key) {
  uint64_t found = 0;
  Fields fields(message);
  for (Field field; fields.Next(&field);) {
    if (field.key == key) found = field.number;
  }
  return found;
}

std::string NumberField(uint32_t key, uint64_t number) {
  return Varint(uint64_t{key} << 3 | kVarint) + Varint(number);
}

std::string BytesField(uint32_t key, std::string_view bytes) {
  return Varint(uint64_t{key} << 3 | kBytes) + Varint(bytes.size()) + std::string(bytes);
}

std::string Encode(const Message& message) {
  const auto size = static_cast<uint32_t>(message.payload.size());
  return BigEndian(static_cast<uint32_t>(message.side)) + BigEndian(kMessageHeaderBytes + size) +
         BigEndian(size) + BigEndian(message.stream) + static_cast<char>(message.kind) + '\0' +
         message.payload;
}

Status Demultiplexer::SplitFrames() {
  size_t at = 0;
  while (frames_.size() - at >= kFrameHeaderBytes) {
    const uint32_t connection = BigEndianAt(frames_, at);
    const uint32_t size = BigEndianAt(frames_, at + 4);
    if (size > kMessageHeaderBytes + kMaxMessageBytes) {
      return Error{EPROTO, "the runtime sent a frame of " + std::to_string(size) + " bytes"};
    }
    if (frames_.size() - at - kFrameHeaderBytes < size) break;
    // Connections that we have not opened lead nowhere.
    if (connection == static_cast<uint32_t>(Side::kPlugin) ||
        connection == static_cast<uint32_t>(Side::kRuntime))
      connections_[connection].append(frames_, at + kFrameHeaderBytes, size);
    at += kFrameHeaderBytes + size;
  }
  frames_.erase(0, at);
  return Ok();
}

Result<std::optional<Message>> Demultiplexer::Next() {
  if (Status status = SplitFrames(); !status) return status.error();
  for (auto& [connection, bytes] : connections_) {
    if (bytes.size() < kMessageHeaderBytes) continue;
    const uint32_t size = BigEndianAt(bytes, 0);
    if (size > kMaxMessageBytes) {
      return Error{EPROTO, "the runtime sent a message of " + std::to_string(size) + " bytes"};
    }
    if (bytes.size() < kMessageHeaderBytes + size) continue;
    Message message{static_cast<Side>(connection), static_cast<Kind>(bytes[8]),
                    BigEndianAt(bytes, 4), bytes.substr(kMessageHeaderBytes, size)};
    bytes.erase(0, kMessageHeaderBytes + size);
    return std::optional(std::move(message));
  }
  return std::optional<Message>();
}

}  // namespace ppc::nri
