// SPDX-License-Identifier: Apache-2.0
// Owns the three encodings of an NRI connection, as far as a plugin needs them: fields of protobuf
// messages; ttrpc messages, which are requests and responses; and the multiplexer's frames, which
// carry two ttrpc connections on one socket.  What comes from the runtime is checked, not trusted.
// Threads: pure functions, any thread; a Demultiplexer, one.
#ifndef PPC_EXTRAS_NRI_WIRE_H_
#define PPC_EXTRAS_NRI_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/result.h"

namespace ppc::nri {

// A field of a message: `bytes` of texts and messages, `number` of all others.
struct Field {
  uint32_t key = 0;
  uint64_t number = 0;
  std::string_view bytes;
};

// The fields of a message, in its order; ends early where the message is broken.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  bool Next(Field* field);
  bool is_broken() const { return is_broken_; }

 private:
  std::optional<uint64_t> Varint();
  std::optional<std::string_view> Bytes(uint64_t size);
  bool Break();

  std::string_view rest_;
  bool is_broken_ = false;
};

// The last field with this key, as protobuf has it; empty or 0 if there is none.
std::string_view BytesOf(std::string_view message, uint32_t key);
uint64_t NumberOf(std::string_view message, uint32_t key);

std::string NumberField(uint32_t key, uint64_t number);
std::string BytesField(uint32_t key, std::string_view bytes);

// The ttrpc connections in the multiplexer: on the first the runtime asks, on the second we do.
enum class Side : uint32_t { kPlugin = 1, kRuntime = 2 };
enum class Kind : uint8_t { kRequest = 1, kResponse = 2 };

struct Message {
  Side side = Side::kPlugin;
  Kind kind = Kind::kRequest;
  uint32_t stream = 0;  // a response has that of its request
  std::string payload;
};

// One frame.
std::string Encode(const Message& message);

// Turns what a socket gives, cut anywhere, into messages.
class Demultiplexer {
 public:
  void Put(std::string_view bytes) { frames_ += bytes; }
  // nullopt: more bytes are needed.  EPROTO: the stream is no NRI connection, or too large.
  Result<std::optional<Message>> Next();

 private:
  Status SplitFrames();

  std::string frames_;
  std::map<uint32_t, std::string> connections_;  // what is left of each
};

}  // namespace ppc::nri

#endif  // PPC_EXTRAS_NRI_WIRE_H_
