// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/shared_store.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "policies/maio/template/template_compare.h"
#include "ppc.h"

namespace ppc::maio {
namespace {

constexpr int kPutTries = 20;

bool IsWhole(const Template& t) { return (t.flags & kProvisional) == 0; }

// What this node alone records.
std::string OwnName(const ServiceSpec& spec) {
  return spec.nodes > 1 ? PartName(spec.template_id, spec.node) : spec.template_id;
}

}  // namespace

SharedStore::SharedStore(const ppc_context* context, Background background)
    : background_(std::move(background)), work_(std::make_shared<Work>()) {
  work_->context = context;
  work_->local = context->template_dir;
}

bool SharedStore::Open(const Config& config, std::string* error) {
  work_->is_configured = !config.store.empty();
  work_->store =
      work_->is_configured ? OpenStore(config.store, error) : DirectoryStore(work_->local);
  if (work_->store == nullptr) return false;
  if (config.store_key.empty()) return true;
  work_->key = StoreKey::Load(config.store_key, error);
  return work_->key.has_value();
}

void SharedStore::Fetch(const ServiceSpec& spec, uint64_t known_ns,
                        std::function<void(bool)> done) {
  auto changed = std::make_shared<bool>(false);
  background_([work = work_, spec, known_ns, changed] { *changed = work->Fetch(spec, known_ns); },
              [changed, done = std::move(done)] { done(*changed); });
}

void SharedStore::Push(const ServiceSpec& spec, Template t) {
  auto recorded = std::make_shared<Template>(std::move(t));
  background_(
      [work = work_, spec, recorded] {
        std::string error;
        work->Report(work->Push(spec, recorded.get(), &error), error);
      },
      [] {});
}

void SharedStore::MarkBad(const ServiceSpec& spec) {
  background_(
      [work = work_, spec] {
        std::string error;
        Template whole;
        const bool is_part = spec.nodes > 1;
        int rc = work->MarkBad(OwnName(spec), &error);
        if (rc == 0 && is_part) rc = work->Merge(spec, &whole, &error);
        work->Report(rc == -ENOENT ? 0 : rc, error);
      },
      [] {});
}

// ------------------------------------------------------------- on the remote thread

void SharedStore::Work::Report(int code, const std::string& error) {
  if (code == 0 && std::exchange(has_failed, false))
    context->log(context, PPC_LOG_INFO, "maio: the template store works again");
  if (code == 0 || std::exchange(has_failed, true)) return;
  const std::string text = "maio: " + error + "; the local templates are used";
  context->log(context, PPC_LOG_WARNING, text.c_str());
}

bool SharedStore::Work::Fetch(const ServiceSpec& spec, uint64_t known_ns) {
  Template t;
  std::string error;
  std::string late_error;
  int rc = GetTemplate(store.get(), Key(), OwnName(spec), &t, nullptr, &error);
  int late = 0;
  if (is_configured && (rc == 0 || rc == -ENOENT))
    late = PutLate(spec, rc == 0 ? t.created_ns : 0, &late_error);
  if (spec.nodes > 1 && (rc == 0 || rc == -ENOENT)) {
    rc = Merge(spec, &t, &error);
    if (rc == -ENOENT) rc = GetTemplate(store.get(), Key(), spec.template_id, &t, nullptr, &error);
  }
  const bool is_newer = rc == 0 && t.created_ns > known_ns;
  if (is_newer && is_configured) rc = Store(local, t, &error);
  if (rc == 0 || rc == -ENOENT) {
    Report(late, late_error);
  } else {
    Report(rc, error);
  }
  return is_newer && rc == 0;
}

// What could not be put when it was recorded.
int SharedStore::Work::PutLate(const ServiceSpec& spec, uint64_t store_ns, std::string* error) {
  Template mine;
  std::string ignored;
  const std::string path = spec.nodes > 1 ? PartPath(local, spec.template_id, spec.node)
                                          : TemplatePath(local, spec.template_id);
  if (Load(path, &mine, &ignored) != 0 || !IsWhole(mine) || mine.created_ns <= store_ns) return 0;
  return Replace(OwnName(spec), &mine, error);
}

int SharedStore::Work::Push(const ServiceSpec& spec, Template* t, std::string* error) {
  if (const int rc = Replace(OwnName(spec), t, error); rc != 0 || spec.nodes == 1) return rc;
  Template whole;
  const int rc = Merge(spec, &whole, error);
  if (rc == -ENOENT) return 0;  // other nodes' parts are to come
  return rc == 0 && is_configured ? Store(local, whole, error) : rc;
}

// A recording that was cut short replaces nothing that is whole, or may be so for who has its key.
int SharedStore::Work::Replace(const std::string& name, Template* t, std::string* error) {
  for (int again = 0; again < kPutTries; again++) {
    Template known;
    uint64_t generation = 0;
    int rc = GetTemplate(store.get(), Key(), name, &known, &generation, error);
    if (rc != 0 && rc != -ENOENT && rc != -EBADMSG) return rc;
    if (!IsWhole(*t) && (rc == -EBADMSG || (rc == 0 && IsWhole(known)))) return rc;
    rc = PutTemplate(store.get(), Key(), name, t, generation, error);
    if (rc != -ESTALE) return rc;
  }
  return -EAGAIN;
}

int SharedStore::Work::MarkBad(const std::string& name, std::string* error) {
  for (int again = 0; again < kPutTries; again++) {
    Template known;
    uint64_t generation = 0;
    int rc = GetTemplate(store.get(), Key(), name, &known, &generation, error);
    if (rc != 0 || (known.flags & kRerecord) != 0) return rc;
    known.flags |= kRerecord;
    rc = PutTemplate(store.get(), Key(), name, &known, generation, error);
    if (rc != -ESTALE) return rc;
  }
  return -EAGAIN;
}

int SharedStore::Work::Merge(const ServiceSpec& spec, Template* whole, std::string* error) {
  return MergeParts(store.get(), Key(), spec.template_id, spec.nodes, whole, error);
}

// -------------------------------------------------------------------------- nodes

bool TakeOwnGroups(const ServiceSpec& spec, Template* t) {
  std::vector<TemplateGroup> own;
  std::vector<TemplateGroup> common;
  for (const TemplateGroup& group : t->groups) {
    if (group.id == kCommonGroup) {
      common.push_back(group);
    } else if (group.id >= spec.first_worker && group.id - spec.first_worker < spec.workers) {
      own.push_back(group);
      own.back().id -= spec.first_worker;
      own.back().node = 0;
    }
  }
  if (own.empty()) return false;
  std::ranges::move(common, std::back_inserter(own));
  t->groups = std::move(own);
  return true;
}

void GiveWholeNumbers(const ServiceSpec& spec, Template* t) {
  if (spec.nodes == 1) return;
  for (TemplateGroup& group : t->groups) {
    group.node = spec.node;
    if (group.id != kCommonGroup) group.id += spec.first_worker;
  }
}

}  // namespace ppc::maio
