// SPDX-License-Identifier: Apache-2.0
#include "extras/etcd/http.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <cerrno>
#include <memory>

// Its checks of types wrap the functions in macros, which pointers to them do not go through.
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace ppc {
namespace {

// Never unloaded: its libraries have handlers for the end of the process.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) init = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_slist_append) append = nullptr;
  decltype(&curl_slist_free_all) free_all = nullptr;
  bool is_there = false;

  Curl() {
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    is_there = Find(library, "curl_global_init", &global_init) &&
               Find(library, "curl_easy_init", &init) &&
               Find(library, "curl_easy_setopt", &setopt) &&
               Find(library, "curl_easy_perform", &perform) &&
               Find(library, "curl_easy_getinfo", &getinfo) &&
               Find(library, "curl_easy_strerror", &strerror) &&
               Find(library, "curl_easy_cleanup", &cleanup) &&
               Find(library, "curl_slist_append", &append) &&
               Find(library, "curl_slist_free_all", &free_all) &&
               global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  }

  template <typename Function>
  static bool Find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

const Curl& TheCurl() {
  static const Curl curl;
  return curl;
}

size_t Receive(const char* data, size_t size, size_t count, void* arg) {
  auto* const reply = static_cast<HttpReply*>(arg);
  const size_t bytes = size * count;
  if (reply->body.size() + bytes > kMaxReplyBytes) return 0;  // ends the transfer
  reply->body.append(data, bytes);
  return bytes;
}

}  // namespace

int HttpPost(const std::string& url, const std::string& json, uint32_t timeout_ms, HttpReply* reply,
             std::string* error) {
  const Curl& curl = TheCurl();
  if (!curl.is_there) {
    *error = url + ": libcurl.so.4 is not there; install libcurl4";
    return -ENOSYS;
  }
  *reply = {};
  const std::unique_ptr<CURL, decltype(curl.cleanup)> request(curl.init(), curl.cleanup);
  curl_slist* list = curl.append(nullptr, "Content-Type: application/json");
  if (list != nullptr) {
    // Without it a body of more than a few KB waits for a 100 that may not come.
    curl_slist* const longer = curl.append(list, "Expect:");
    if (longer != nullptr) list = longer;
  }
  const std::unique_ptr<curl_slist, decltype(curl.free_all)> headers(list, curl.free_all);
  if (request == nullptr || headers == nullptr) return -ENOMEM;
  CURL* const r = request.get();
  curl.setopt(r, CURLOPT_URL, url.c_str());
  curl.setopt(r, CURLOPT_PROTOCOLS_STR, "http,https");
  curl.setopt(r, CURLOPT_PROXY, "");  // of a cluster's own store
  curl.setopt(r, CURLOPT_NOSIGNAL, 1L);
  curl.setopt(r, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_ms));
  curl.setopt(r, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeout_ms));
  curl.setopt(r, CURLOPT_HTTPHEADER, headers.get());
  curl.setopt(r, CURLOPT_POSTFIELDS, json.data());
  curl.setopt(r, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl.setopt(r, CURLOPT_WRITEFUNCTION, Receive);
  curl.setopt(r, CURLOPT_WRITEDATA, reply);
  const CURLcode code = curl.perform(r);
  if (code == CURLE_OK) {
    curl.getinfo(r, CURLINFO_RESPONSE_CODE, &reply->status);
    return 0;
  }
  *error = url + ": " + curl.strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT) return -ETIMEDOUT;
  return code == CURLE_WRITE_ERROR ? -EFBIG : -EIO;
}

}  // namespace ppc
