// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/walks.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace ppc::kvtier {

Walks::Walks(ObjectTable* table, ClockCache* cache, PrefetchBudget* budget, Options options)
    : table_(table), cache_(cache), budget_(budget), options_(std::move(options)) {}

size_t Walks::size() const {
  return static_cast<size_t>(
      std::ranges::count_if(walks_, [](const auto& walk) { return walk != nullptr; }));
}

size_t Walks::deepest() const {
  size_t most = 0;
  for (const auto& walk : walks_) {
    if (walk != nullptr) most = std::max(most, walk->ahead());
  }
  return most;
}

Walk* Walks::NewestOf(const Reader& reader) {
  Walk* newest = nullptr;
  for (const auto& walk : walks_) {
    if (walk == nullptr || walk->reader() != reader) continue;
    if (newest == nullptr || walk->turn > newest->turn) newest = walk.get();
  }
  return newest;
}

// The reader's walk that expects the object, next or after all objects ahead.
Walk* Walks::Expecting(const Object& object, const Arrival& arrival) {
  if (object.walk != 0) {
    Walk* const its = walks_[object.walk - 1].get();
    if (its != nullptr && its->reader() == arrival.reader) return its;
  }
  for (const auto& walk : walks_) {
    if (walk == nullptr || walk->reader() != arrival.reader) continue;
    const Object* const tail = table_->Find(walk->tail());
    if (tail != nullptr && tail->next == object.key) return walk.get();
  }
  return nullptr;
}

// Updates guesses and the cache's account by the read.
void Walks::Account(Object* object, const Arrival& arrival) {
  const uint64_t before = object->bytes();
  object->Extend(arrival.first_page, arrival.pages);
  cache_->NoteGrown(*object, before);
  object->Clear(Object::kGone);
  if (object->Is(Object::kGuessed)) {
    if (object->Is(Object::kWrong)) budget_->Refund(before);
    budget_->NoteRight(before);
  } else if (arrival.is_miss && object->Is(Object::kResident)) {
    distrust_ = kDistrust;
  }
  object->Clear(Object::kGuessed | Object::kWrong);
  budget_->NoteRead(object->bytes());
  cache_->NoteCached(object, /*wanted=*/true);
}

void Walks::Arrive(const Arrival& arrival) {
  // The reader reads more of its current object.
  for (const auto& walk : walks_) {
    if (walk == nullptr || walk->reader() != arrival.reader) continue;
    if (!walk->WasJustAt(arrival.key)) continue;
    if (Object* const object = table_->Find(arrival.key)) {
      const uint64_t before = object->bytes();
      object->Extend(arrival.first_page, arrival.pages);
      cache_->NoteGrown(*object, before);
      budget_->NoteRead(object->bytes() - before);
    }
    walk->read_ns = arrival.now_ns;
    return;
  }
  Object displaced;
  Object* const object = table_->Add(arrival.key, &displaced);
  cache_->NoteDisplaced(displaced);
  if (object == nullptr) {
    untracked_++;
    return;
  }
  Account(object, arrival);
  Walk* walk = Expecting(*object, arrival);
  if (walk != nullptr && object->walk == walk->number() + 1) {
    late_ += walk->Read(object, arrival.now_ns, arrival.is_miss, table_, budget_) ? 1 : 0;
  } else if (walk != nullptr) {
    walk->Pass(object, arrival.now_ns, arrival.is_miss, table_, budget_);
  } else if (walk = NewestOf(arrival.reader); walk == nullptr) {
    walk = Begin(arrival);
  } else {
    const Object* const tail = table_->Find(walk->tail());
    if (walk->ahead() > 0 || (tail != nullptr && walk->IsReliable(*tail))) {
      Stray(arrival);
      return;
    }
    walk->Learn(object, arrival.now_ns, arrival.is_miss, table_, budget_);
  }
  walk->read_ns = arrival.now_ns;
  walk->turn = ++turn_;
}

// An unexpected object: another chain of the same reader, or the end of this one.
void Walks::Stray(const Arrival& arrival) {
  std::vector<Walk*> its;
  for (const auto& walk : walks_) {
    if (walk == nullptr || walk->reader() != arrival.reader) continue;
    walk->Stray(arrival.key, budget_);
    its.push_back(walk.get());
  }
  std::ranges::sort(its, {}, [](const Walk* walk) { return walk->turn; });
  size_t left = its.size();
  for (Walk* const walk : its) {
    if (walk->strays() <= kMaxStrays && left < kMaxWalksOfReader) continue;
    End(walk, /*is_left=*/true);
    left--;
  }
  Walk* const begun = Begin(arrival);
  begun->read_ns = arrival.now_ns;
  begun->turn = ++turn_;
}

// Replaces the longest idle walk if there is no free place.
Walk* Walks::Begin(const Arrival& arrival) {
  auto place = std::ranges::find_if(walks_, [](const auto& walk) { return walk == nullptr; });
  if (place == walks_.end()) {
    place = std::ranges::min_element(walks_, {}, [](const auto& walk) { return walk->turn; });
    End(place->get(), /*is_left=*/false);
  }
  const auto number = static_cast<uint8_t>(place - walks_.begin());
  *place = std::make_unique<Walk>(
      arrival.reader, arrival.service, arrival.xpu, number, arrival.key, budget_->FirstDepth(),
      arrival.service == last_service_ ? last_distance_.ForNext() : PrefetchDistance());
  return place->get();
}

void Walks::End(Walk* walk, bool is_left) {
  const bool is_asked = std::ranges::any_of(
      walk->slots(), [](const Walk::Slot& slot) { return slot.is_asked && !slot.is_done; });
  if (is_asked && options_.interrupt) options_.interrupt(walk->service(), walk->number());
  if (walk->run_bytes() != 0) {
    last_distance_ = walk->distance();
    last_service_ = walk->service();
  }
  walk->End(is_left, table_, budget_);
  walks_[walk->number()].reset();
}

void Walks::Tick(uint64_t now_ns) {
  for (const auto& walk : walks_) {
    if (walk == nullptr) continue;
    const uint64_t idle = std::max(kIdleNs, kIdleSteps * walk->distance().step_ns());
    if (now_ns > walk->read_ns + idle) End(walk.get(), /*is_left=*/walk->strays() > 0);
  }
}

void Walks::Plan(uint32_t service, uint64_t max_bytes, uint64_t most_ahead, uint64_t now_ns,
                 ppc::IoList* out) {
  std::vector<Walk*> its;
  for (const auto& walk : walks_) {
    // A reader that has gone elsewhere gets no more of this chain.
    if (walk != nullptr && walk->service() == service && walk->strays() == 0)
      its.push_back(walk.get());
  }
  std::ranges::sort(its, std::greater<>{}, [](const Walk* walk) { return walk->turn; });
  uint64_t left = max_bytes;
  for (Walk* const walk : its) {
    walk->Extend(std::min(most_ahead, budget_->BytesAhead(walk->run_bytes())), table_);
    Ask(walk, max_bytes, now_ns, &left, out);
  }
}

void Walks::Ask(Walk* walk, uint64_t max_bytes, uint64_t now_ns, uint64_t* left, ppc::IoList* out) {
  const bool can_tell = walk->distance().step_ns() != 0;
  for (size_t i = walk->ahead_from(); i < walk->slots().size(); i++) {
    Walk::Slot& slot = walk->slots()[i];
    // Objects that should be cached are requested too, after one of them was not.
    if (slot.is_asked || (slot.is_done && distrust_ == 0)) continue;
    const Object* const object = table_->Find(slot.key);
    if (object == nullptr) continue;
    if (object->Is(Object::kResident) && distrust_ == 0) {
      slot.is_done = true;
      continue;
    }
    if (object->bytes() > *left && *left < max_bytes) return;
    ppc_io& io = out->Add(FileOf(slot.key),
                          BlockOf(slot.key) * options_.block_bytes + object->first_page * kPage,
                          object->bytes());
    io.xpu = walk->xpu();
    io.group = walk->number();
    io.service = walk->service();
    io.cookie = slot.key;
    const uint64_t steps = i - walk->ahead_from() + 1;
    if (can_tell) out->Due(walk->read_ns + steps * walk->distance().step_ns());
    slot.is_asked = true;
    slot.is_done = false;
    slot.asked_ns = now_ns;
    *left -= std::min(*left, object->bytes());
    if (distrust_ > 0) distrust_--;
  }
}

void Walks::Done(const ppc_result& result, uint64_t now_ns) {
  const uint64_t first = result.offset / options_.block_bytes;
  const uint64_t last =
      (result.offset + std::max<uint64_t>(result.size, 1) - 1) / options_.block_bytes;
  const uint64_t end = result.interrupted ? result.offset + result.ok + result.resident
                                          : result.offset + result.size;
  for (uint64_t block = first; block <= last; block++) {
    const Key key = KeyOf(result.file, block);
    Object* const object = key == 0 ? nullptr : table_->Find(key);
    if (object == nullptr) continue;
    if (result.kind == PPC_LOADED) {
      LoadDone(object, result, end, now_ns);
    } else if (result.mapped + result.failed > 0) {
      cache_->NoteDropFailed(object);
    }
  }
}

void Walks::LoadDone(Object* object, const ppc_result& result, uint64_t end, uint64_t now_ns) {
  const bool is_gone = result.error == -ESTALE || result.error == -ENOENT;
  const uint64_t object_end = BlockOf(object->key) * options_.block_bytes +
                              (object->first_page + uint64_t{object->pages}) * kPage;
  // The last page of a file may be reported whole or cut.
  const bool is_whole = result.error == 0 && result.failed == 0 && end + kPage > object_end;
  Walk* const walk = object->walk == 0 ? nullptr : walks_[object->walk - 1].get();
  Walk::Slot* const slot = walk == nullptr ? nullptr : walk->Find(object->key);
  if (is_gone) {
    object->Set(Object::kGone);
    cache_->NoteGone(object);
  }
  if (slot != nullptr && !slot->is_done) {
    slot->is_done = is_whole || is_gone;
    slot->done_ns = slot->is_done ? now_ns : 0;
    // An interrupted load is requested again while still ahead; a failed one is not.
    if (!slot->is_done && result.interrupted) slot->is_asked = false;
    if (is_whole && result.ok > 0)
      walk->distance().NoteLoad(now_ns - std::min(now_ns, slot->asked_ns));
  }
  if (!is_whole) return;
  if (result.ok > 0) {
    // Another process has dropped it.
    if (object->Is(Object::kResident) && !object->Is(Object::kGuessed)) distrust_ = kDistrust;
    // Read meanwhile: no longer a guess.
    const bool is_read =
        walk == nullptr ? !object->Is(Object::kWrong) : slot != nullptr && slot->is_read;
    if (!is_read && !object->Is(Object::kGuessed)) {
      object->Set(Object::kGuessed);
      if (object->Is(Object::kWrong)) budget_->NoteWrong(object->bytes());
    }
  }
  cache_->NoteCached(object, /*wanted=*/false);
}

}  // namespace ppc::kvtier
