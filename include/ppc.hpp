// SPDX-License-Identifier: Apache-2.0
//
// Policies in C++: a thin class over ppc.h.  Derive from ppc::Policy, override
// the hooks the policy needs, and write PPC_POLICY(MyPolicy) once in one file.
//
// Hooks that are not overridden stay NULL in the table, so the runtime's
// defaults apply.  No exception leaves a hook: it is logged and the hook returns
// nothing.  Threads: as in ppc.h, one hook at a time on one thread.
#ifndef PPC_HPP_
#define PPC_HPP_

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ppc.h"

namespace ppc {

// Builds the lists that hooks return; it owns them, so it must live until the
// next hook call: make it a member and Clear() it at the start of the hook.
class IoList {
 public:
  void Clear() {
    ios_.clear();
    paths_.clear();
    deadlines_.clear();
    flags_ = 0;
  }
  bool empty() const { return ios_.empty(); }
  size_t size() const { return ios_.size(); }
  std::vector<ppc_io>& ios() { return ios_; }
  void set_flags(uint32_t flags) { flags_ = flags; }

  // Adds a range of a file by number and returns it, for setting further fields.
  ppc_io& Add(uint64_t file, uint64_t offset, uint64_t size) {
    ppc_io io = {};
    io.file = file;
    io.offset = offset;
    io.size = size;
    io.xpu = PPC_NO_XPU;
    ios_.push_back(io);
    return ios_.back();
  }
  ppc_io& Add(std::string path, uint64_t offset, uint64_t size) {
    paths_.push_back(std::move(path));
    ppc_io& io = Add(uint64_t{0}, offset, size);
    io.path = paths_.back().c_str();
    return io;
  }

  // Sets the deadline of the last range added, on the clock of now_ns; needs
  // PPC_CAN_DEADLINES.
  void Due(uint64_t deadline_ns) {
    deadlines_.resize(ios_.size(), 0);
    deadlines_.back() = deadline_ns;
  }

  // NULL when empty.
  prefetch_ios* Prefetch() {
    if (deadlines_.empty()) return Fill(&prefetch_.list);
    deadlines_.resize(ios_.size(), 0);
    prefetch_.deadline_ns = deadlines_.data();
    flags_ |= PPC_IOS_DEADLINES;
    return Fill(&prefetch_.list);
  }
  evict_ios* Evict() { return Fill(&evict_); }

 private:
  template <typename List>
  List* Fill(List* list) {
    if (ios_.empty()) return nullptr;
    list->nr = static_cast<uint32_t>(ios_.size());
    list->flags = flags_;
    list->ios = ios_.data();
    return list;
  }

  std::vector<ppc_io> ios_;
  std::deque<std::string> paths_;    // deque: c_str() stays where it is
  std::vector<uint64_t> deadlines_;  // of the first ios_
  uint32_t flags_ = 0;
  timed_prefetch_ios prefetch_ = {};
  evict_ios evict_ = {};
};

namespace internal {

// The argument of ppc_context.background: owns itself until done() has run.
struct BackgroundTask {
  const ppc_context* context;
  std::function<void()> work;
  std::function<void()> done;

  static void Run(const BackgroundTask* task, const std::function<void()>& call) noexcept {
    try {
      call();
    } catch (const std::exception& error) {
      Report(*task, error.what());
    } catch (...) {
      Report(*task, "unknown exception");
    }
  }
  static void Report(const BackgroundTask& task, const char* what) noexcept {
    try {
      const std::string text = std::string("background work failed: ") + what;
      task.context->log(task.context, PPC_LOG_ERROR, text.c_str());
    } catch (...) {
    }
  }
  static void Work(void* arg) noexcept {
    auto* const task = static_cast<BackgroundTask*>(arg);
    Run(task, task->work);
    task->work = nullptr;  // its captures are freed on the work thread
  }
  static void Done(void* arg) noexcept {
    const std::unique_ptr<BackgroundTask> task(static_cast<BackgroundTask*>(arg));
    if (task->done) Run(task.get(), task->done);
  }
};

}  // namespace internal

// Base of policies.  See ppc.h for what each hook means and when it is called.
class Policy {
 public:
  virtual ~Policy() = default;

  // Called with the context in place; non-zero refuses the registration.
  virtual int Init() { return 0; }
  virtual void Exit() {}
  virtual prefetch_ios* Prefetch(const miss_io&) { return nullptr; }
  virtual evict_ios* Evict(const miss_io*) { return nullptr; }
  virtual void Event(const miss_io&) {}
  virtual prefetch_ios* Plan(const ppc_plan_request&) { return nullptr; }
  virtual void Done(const ppc_result&) {}
  // The string returned must live until the next hook; NULL = unknown op.
  virtual const char* Control(const char*) { return nullptr; }
  virtual void Tick(uint64_t) {}

  void set_context(const ppc_context* context) { context_ = context; }
  const ppc_context* context() const { return context_; }
  // ppc_context.background with closures.  Exceptions are logged; done() is called even if work()
  // threw.  Returns 0, or a negative errno and takes nothing; -ENOSYS if the host has no such
  // thread. done() runs before Exit(), so both may use this object; but if Init() refuses, the
  // object is gone before the work it submitted here is done.
  int Background(std::function<void()> work, std::function<void()> done) const {
    const size_t needed = offsetof(ppc_context, background) + sizeof(ppc_context::background);
    if (context_ == nullptr || context_->size < needed) return -ENOSYS;
    return Give(context_->background, std::move(work), std::move(done));
  }
  // Background() for work that waits for other machines (ppc_context.background_remote); falls
  // back to Background() on hosts without it.  done() is not called for work given up at the
  // end.
  int BackgroundRemote(std::function<void()> work, std::function<void()> done) const {
    const size_t needed =
        offsetof(ppc_context, background_remote) + sizeof(ppc_context::background_remote);
    if (context_ == nullptr || context_->size < needed || context_->background_remote == nullptr)
      return Background(std::move(work), std::move(done));
    return Give(context_->background_remote, std::move(work), std::move(done));
  }
  void Log(int level, const std::string& message) const {
    if (context_ != nullptr && context_->log != nullptr) {
      context_->log(context_, level, message.c_str());
    }
  }

 private:
  int Give(decltype(ppc_context::background) taker, std::function<void()> work,
           std::function<void()> done) const {
    if (taker == nullptr) return -ENOSYS;
    auto task = std::make_unique<internal::BackgroundTask>(
        internal::BackgroundTask{context_, std::move(work), std::move(done)});
    const int code =
        taker(context_, internal::BackgroundTask::Work, internal::BackgroundTask::Done, task.get());
    if (code == 0) (void)task.release();
    return code;
  }

  const ppc_context* context_ = nullptr;
};

namespace internal {

// Bridges one policy class to the C table.
template <typename P>
class Bridge {
 public:
  static ppc_operation* Table() {
    static ppc_operation table = Make();
    return &table;
  }

 private:
  static std::unique_ptr<P>& Instance() {
    static std::unique_ptr<P> instance;
    return instance;
  }

  template <typename Result, typename Call>
  static Result Guard(const char* hook, Result failed, Call call) noexcept {
    P* policy = Instance().get();
    if (policy == nullptr) return failed;
    try {
      return call(*policy);
    } catch (const std::exception& error) {
      Report(*policy, hook, error.what());
    } catch (...) {
      Report(*policy, hook, "unknown exception");
    }
    return failed;
  }
  static void Report(const P& policy, const char* hook, const char* what) noexcept {
    try {
      policy.Log(PPC_LOG_ERROR, std::string(hook) + " failed: " + what);
    } catch (...) {
    }
  }

  static int Init(void* context) noexcept {
    try {
      Instance() = std::make_unique<P>();
    } catch (...) {
      return -1;
    }
    Instance()->set_context(static_cast<const ppc_context*>(context));
    int rc = Guard("ppc_init", -1, [](P& p) { return p.Init(); });
    if (rc != 0) Instance().reset();
    return rc;
  }
  static int Exit() noexcept {
    int rc = Guard("ppc_exit", -1, [](P& p) {
      p.Exit();
      return 0;
    });
    Instance().reset();
    return rc;
  }

  static ppc_operation Make() {
    ppc_operation t = {};
    t.ppc_init = Init;
    t.ppc_exit = Exit;
    if constexpr (!std::is_same_v<decltype(&P::Prefetch), decltype(&Policy::Prefetch)>) {
      t.ppc_prefetch = [](miss_io* miss) -> prefetch_ios* {
        return Guard<prefetch_ios*>("ppc_prefetch", nullptr,
                                    [&](P& p) { return p.Prefetch(*miss); });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Evict), decltype(&Policy::Evict)>) {
      t.ppc_evict = [](miss_io* miss) -> evict_ios* {
        return Guard<evict_ios*>("ppc_evict", nullptr, [&](P& p) { return p.Evict(miss); });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Event), decltype(&Policy::Event)>) {
      t.ppc_event = [](const miss_io* event) {
        Guard("ppc_event", 0, [&](P& p) { return p.Event(*event), 0; });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Plan), decltype(&Policy::Plan)>) {
      t.ppc_plan = [](const ppc_plan_request* request) -> prefetch_ios* {
        return Guard<prefetch_ios*>("ppc_plan", nullptr, [&](P& p) { return p.Plan(*request); });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Done), decltype(&Policy::Done)>) {
      t.ppc_done = [](const ppc_result* result) {
        Guard("ppc_done", 0, [&](P& p) { return p.Done(*result), 0; });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Control), decltype(&Policy::Control)>) {
      t.ppc_control = [](const char* json) -> const char* {
        return Guard<const char*>("ppc_control", "{\"error\": \"the policy failed internally\"}",
                                  [&](P& p) { return p.Control(json); });
      };
    }
    if constexpr (!std::is_same_v<decltype(&P::Tick), decltype(&Policy::Tick)>) {
      t.ppc_tick = [](uint64_t now_ns) {
        Guard("ppc_tick", 0, [&](P& p) { return p.Tick(now_ns), 0; });
      };
    }
    return t;
  }
};

}  // namespace internal
}  // namespace ppc

// Once per library, outside any namespace.
// NOLINTBEGIN(bugprone-macro-parentheses): a template argument cannot have any.
#define PPC_POLICY(Class) \
  extern "C" ppc_operation* register_policy() { return ::ppc::internal::Bridge<Class>::Table(); }
// NOLINTEND(bugprone-macro-parentheses)

#endif  // PPC_HPP_
