// SPDX-License-Identifier: Apache-2.0
//
// etcd as a store, by the JSON gateway of its version 3.
//
// The key PREFIX/NAME holds a head, one line of JSON {"generation", "bytes", "chunks", "id"}, and
// behind it the value if that is small.  A larger one lies in the keys
// PREFIX/NAME/GENERATION-ID/0, .../1, ..., which are there before the head names them: etcd takes a
// megabyte and a half at once.  A put is a transaction that compares the revision of the head that
// it replaces.  Chunks of lower generations are removed afterwards, one's own when the put failed.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "extras/etcd/etcd.h"
#include "extras/etcd/http.h"
#include "policies/maio/template/store.h"

namespace ppc::maio {
namespace {

using EtcdJson = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kChunkBytes = 768u << 10;
constexpr size_t kMaxChunks = kMaxTemplateBytes / kChunkBytes + 2;
constexpr int kGetTries = 4;

// The gateway writes 64-bit numbers as text, and leaves out those that are 0.
uint64_t NumberOf(const EtcdJson& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) return 0;
  if (it->is_number_unsigned()) return it->get<uint64_t>();
  uint64_t number = 0;
  if (it->is_string()) {
    const std::string& text = it->get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

std::string BytesOf(const EtcdJson& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_string()) return "";
  return FromBase64(it->get_ref<const std::string&>()).value_or("");
}

// The first key behind all that begin with this one.
std::string EndOf(std::string prefix) {
  prefix.back()++;
  return prefix;
}

struct Head {
  uint64_t generation = 0;
  uint64_t bytes = 0;
  uint64_t chunks = 0;
  std::string id;  // of its chunks, with the generation
  std::string inline_bytes;
  uint64_t revision = 0;  // 0: there is no head
};

class EtcdTemplates : public TemplateStore {
 public:
  EtcdTemplates(std::string address, std::string prefix, uint32_t timeout_ms)
      : address_(std::move(address)), prefix_(std::move(prefix)), timeout_ms_(timeout_ms) {}

  int List(std::vector<std::string>* names, std::string* error) override {
    Begin();
    EtcdJson reply;
    const EtcdJson request = {
        {"key", Base64(prefix_)}, {"range_end", Base64(EndOf(prefix_))}, {"keys_only", true}};
    if (const int rc = Ask("range", request, &reply, error); rc != 0) return rc;
    names->clear();
    for (const EtcdJson& kv : ListOf(reply)) {
      const std::string key = BytesOf(kv, "key");
      const std::string name = key.substr(std::min(prefix_.size(), key.size()));
      if (ValidStoreName(name)) names->push_back(name);
    }
    std::sort(names->begin(), names->end());
    return 0;
  }

  int Get(const std::string& name, Value* out, std::string* error) override {
    Begin();
    for (int again = 0; again < kGetTries; again++) {
      Head head;
      if (const int rc = GetHead(name, &head, error); rc != 0) return rc;
      if (head.revision == 0) return Fail(-ENOENT, name, "there is none", error);
      std::string bytes = std::move(head.inline_bytes);
      bool is_whole = true;
      for (uint64_t i = 0; is_whole && i < head.chunks; i++) {
        EtcdJson reply;
        const EtcdJson request = {{"key", Base64(ChunkKey(name, head.id, i))}};
        if (const int rc = Ask("range", request, &reply, error); rc != 0) return rc;
        is_whole = !ListOf(reply).empty();
        if (is_whole) bytes += BytesOf(ListOf(reply)[0], "value");
        if (bytes.size() > head.bytes) break;
      }
      if (!is_whole) continue;  // replaced meanwhile
      if (bytes.size() != head.bytes) return Fail(-EBADMSG, name, "it is damaged", error);
      out->bytes.assign(bytes.begin(), bytes.end());
      out->generation = head.generation;
      return 0;
    }
    return Fail(-EBADMSG, name, "chunks of it are missing", error);
  }

  int Put(const std::string& name, const std::vector<uint8_t>& bytes, uint64_t expected,
          std::string* error) override {
    Begin();
    Head known;
    if (const int rc = GetHead(name, &known, error); rc != 0) return rc;
    if (known.generation != expected) return Stale(name, known.generation, error);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Head head;
    head.generation = expected + 1;
    head.id = NewId(head.generation);
    if (bytes.size() > kChunkBytes) head.chunks = (bytes.size() + kChunkBytes - 1) / kChunkBytes;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < head.chunks; i++) {
      EtcdJson reply;
      rc = Ask("put",
               {{"key", Base64(ChunkKey(name, head.id, i))},
                {"value", Base64(text.substr(i * kChunkBytes, kChunkBytes))}},
               &reply, error);
    }
    if (rc == 0) {
      const EtcdJson line = {{"generation", head.generation},
                             {"bytes", bytes.size()},
                             {"chunks", head.chunks},
                             {"id", head.id}};
      std::string value = line.dump() + "\n";
      if (head.chunks == 0) value += text;
      rc = Replace(name, value, known.revision, error);
    }
    // Not those of an answer that was lost: the put may have been done.
    if (rc != 0 && head.chunks != 0 && rc != -ETIMEDOUT) Drop(ChunksKey(name) + head.id + "/", "");
    if (rc != 0) return rc;
    if (known.chunks != 0 || head.chunks != 0)
      Drop(ChunksKey(name), ChunksKey(name) + Digits(head.generation));
    return 0;
  }

  int Remove(const std::string& name, std::string* error) override {
    Begin();
    EtcdJson reply;
    if (const int rc = Ask("deleterange", {{"key", Base64(prefix_ + name)}}, &reply, error);
        rc != 0)
      return rc;
    Drop(ChunksKey(name), "");
    return NumberOf(reply, "deleted") != 0 ? 0 : Fail(-ENOENT, name, "there was none", error);
  }

 private:
  // The deadline of all requests that one call makes.
  void Begin() { deadline_ = Clock::now() + std::chrono::milliseconds(timeout_ms_); }

  std::string ChunksKey(const std::string& name) const { return prefix_ + name + "/"; }
  std::string ChunkKey(const std::string& name, const std::string& id, uint64_t i) const {
    return ChunksKey(name) + id + "/" + std::to_string(i);
  }
  static std::string Digits(uint64_t number) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016" PRIx64, number);
    return digits;
  }
  static std::string NewId(uint64_t generation) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
      random = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
    return Digits(generation) + "-" + Digits(random);
  }

  int Fail(int code, const std::string& name, const std::string& why, std::string* error) const {
    *error = "template store " + address_ + prefix_ + name + ": " + why;
    return code;
  }
  int Stale(const std::string& name, uint64_t present, std::string* error) const {
    return Fail(-ESTALE, name,
                "generation " + std::to_string(present) + " is there now; read it again", error);
  }

  static const EtcdJson& ListOf(const EtcdJson& reply) {
    static const EtcdJson empty = EtcdJson::array();
    const auto it = reply.find("kvs");
    return it != reply.end() && it->is_array() ? *it : empty;
  }

  int Ask(const std::string& verb, const EtcdJson& request, EtcdJson* out,
          std::string* error) const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
    if (left.count() <= 0) return Fail(-ETIMEDOUT, "", "no answer in time", error);
    HttpReply reply;
    std::string why;
    const std::string url = address_ + "/v3/kv/" + verb;
    const int rc = HttpPost(url, request.dump(), static_cast<uint32_t>(left.count()), &reply, &why);
    if (rc != 0) return Fail(rc, "", why, error);
    *out = EtcdJson::parse(reply.body, nullptr, /*allow_exceptions=*/false);
    if (reply.status == 200 && out->is_object()) return 0;
    std::string text;
    if (out->is_object() && out->contains("error") && (*out)["error"].is_string())
      text = ": " + (*out)["error"].get<std::string>().substr(0, 200);
    const bool is_refused = reply.status == 401 || reply.status == 403;
    return Fail(is_refused ? -EACCES : -EIO, "", "status " + std::to_string(reply.status) + text,
                error);
  }

  int GetHead(const std::string& name, Head* out, std::string* error) const {
    if (!ValidStoreName(name)) return Fail(-EINVAL, name, "is no name of a template", error);
    EtcdJson reply;
    if (const int rc = Ask("range", {{"key", Base64(prefix_ + name)}}, &reply, error); rc != 0)
      return rc;
    if (ListOf(reply).empty()) return 0;
    const EtcdJson& kv = ListOf(reply)[0];
    const std::string value = BytesOf(kv, "value");
    const size_t end = value.find('\n');
    const EtcdJson line =
        EtcdJson::parse(value.substr(0, end), nullptr, /*allow_exceptions=*/false);
    out->revision = NumberOf(kv, "mod_revision");
    if (!line.is_object() || end == std::string::npos || out->revision == 0)
      return Fail(-EBADMSG, name, "it is damaged; remove it (ppcctl template rm)", error);
    out->generation = NumberOf(line, "generation");
    out->bytes = NumberOf(line, "bytes");
    out->chunks = NumberOf(line, "chunks");
    if (line.contains("id") && line["id"].is_string()) out->id = line["id"].get<std::string>();
    if (out->bytes > kMaxTemplateBytes || out->chunks > kMaxChunks || out->id.size() > 64)
      return Fail(-EBADMSG, name, "it is damaged; remove it (ppcctl template rm)", error);
    if (out->chunks == 0) out->inline_bytes = value.substr(end + 1);
    return 0;
  }

  // If the key is still of this revision; 0: if there is none.
  int Replace(const std::string& name, const std::string& value, uint64_t revision,
              std::string* error) const {
    const std::string key = Base64(prefix_ + name);
    const EtcdJson same = {{"target", "MOD"},
                           {"result", "EQUAL"},
                           {"key", key},
                           {"mod_revision", std::to_string(revision)}};
    const EtcdJson put = {{"request_put", {{"key", key}, {"value", Base64(value)}}}};
    const EtcdJson request = {{"compare", EtcdJson::array({same})},
                              {"success", EtcdJson::array({put})}};
    EtcdJson reply;
    if (const int rc = Ask("txn", request, &reply, error); rc != 0) return rc;
    const auto done = reply.find("succeeded");
    if (done != reply.end() && *done == true) return 0;
    return Fail(-ESTALE, name, "another was put meanwhile; read it again", error);
  }

  // Keys from first up to end, "": all that begin with it.  What stays is removed with the next
  // put.
  void Drop(const std::string& first, const std::string& end) const {
    EtcdJson reply;
    std::string ignored;
    Ask("deleterange",
        {{"key", Base64(first)}, {"range_end", Base64(end.empty() ? EndOf(first) : end)}}, &reply,
        &ignored);
  }

  const std::string address_;  // http://host:port
  const std::string prefix_;   // ends with a slash
  const uint32_t timeout_ms_;
  Clock::time_point deadline_;
};

}  // namespace

std::unique_ptr<TemplateStore> EtcdStore(const std::string& url, uint32_t timeout_ms,
                                         std::string* error) {
  const std::optional<EtcdPlace> place = SplitEtcdUrl(url, "/ppc/templates");
  if (!place) {
    *error = "store 'etcd:" + url + "': must be etcd:http://HOST:PORT/PREFIX";
    return nullptr;
  }
  return std::make_unique<EtcdTemplates>(place->address, place->prefix, timeout_ms);
}

}  // namespace ppc::maio
