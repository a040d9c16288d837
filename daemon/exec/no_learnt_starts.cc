// SPDX-License-Identifier: Apache-2.0
// In place of extras/learnt_starts, where that is left out: no start is guessed.
#include "daemon/exec/auto_services.h"
#include "daemon/exec/learnt_programs.h"

namespace ppc {

bool LearntPrograms::AreBuilt() { return false; }
void LearntPrograms::Open() {}
LearntPrograms::Stats LearntPrograms::View() const { return {}; }

void AutoServices::Guess(const Exec& /*exec*/) {}
void AutoServices::PlaceGuess(const Reader& reader, const Identity& /*identity*/) {
  Decided(reader);
}
LearntProgram AutoServices::ToLearn(const Reader& /*reader*/, const Identity& /*identity*/) const {
  return {};
}
void AutoServices::NoteEnd(const std::string& /*id*/, Start* /*start*/) {}
void AutoServices::EndLateGuesses() {}

}  // namespace ppc
