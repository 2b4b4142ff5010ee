#include "lock_book.h"

#include <algorithm>
#include <utility>

namespace penstock::simulation {
namespace {

using Grade = LockBook::Grade;

bool Conflict(Grade a, Grade b) {
  return a != Grade::kNone && b != Grade::kNone && (a == Grade::kExclusive || b == Grade::kExclusive);
}

}  // namespace

size_t LockBook::AddHolder(std::string name, std::function<bool()> keeps) {
  holders_.push_back({std::move(name), std::move(keeps), std::vector<Row>(versions_.size())});
  return holders_.size() - 1;
}

LockBook::Row& LockBook::Change(size_t holder, size_t file) {
  ++versions_[file];
  return holders_[holder].rows[file];
}

LockBook::Units LockBook::HandleAsked(size_t holder, size_t file, Span span, Grade grade) {
  Row& row = Change(holder, file);
  const Units before = row.units;
  for (size_t i = span.first; i <= span.last; ++i) {
    Unit& unit = row.units[i];
    unit = {std::min(unit.surely, grade), std::max(unit.perhaps, grade)};
  }
  return before;
}

std::string LockBook::HandleGranted(size_t holder, size_t file, Span span, Grade grade) {
  Row& row = Change(holder, file);
  for (size_t i = span.first; i <= span.last; ++i) row.units[i] = {grade, grade};
  return Meet(holder, file);
}

std::string LockBook::HandleDenied(size_t holder, size_t file, const Units& before) {
  Change(holder, file).units = before;
  return Meet(holder, file);
}

// Returns the name of another holder that certainly has a conflicting lock. If that holder's lease has expired, the
// server may have taken its locks: then they become doubtful, and the conflict is no error.
std::string LockBook::Meet(size_t holder, size_t file) {
  const Units& mine = holders_[holder].rows[file].units;
  for (size_t other = 0; other < holders_.size(); ++other) {
    if (other == holder) continue;
    const Units& theirs = holders_[other].rows[file].units;
    for (size_t i = 0; i < kUnits; ++i) {
      if (!Conflict(mine[i].surely, theirs[i].surely)) continue;
      if (holders_[other].keeps()) return holders_[other].name;
      Doubt(other);
      break;
    }
  }
  return {};
}

void LockBook::HandleUnlocking(size_t holder, size_t file, Span span) {
  Row& row = Change(holder, file);
  for (size_t i = span.first; i <= span.last; ++i) row.units[i].surely = Grade::kNone;
}

void LockBook::HandleUnlocked(size_t holder, size_t file, Span span) {
  Row& row = Change(holder, file);
  for (size_t i = span.first; i <= span.last; ++i) row.units[i] = {};
}

bool LockBook::HandleLost(size_t holder, size_t file) {
  const Row was = std::exchange(Change(holder, file), {});
  const auto none = [](const Unit& unit) { return unit.surely == Grade::kNone; };
  return was.may_be_lost || std::ranges::all_of(was.units, none) || !holders_[holder].keeps();
}

void LockBook::Doubt(size_t holder) {
  for (size_t file = 0; file < versions_.size(); ++file) {
    Row& row = Change(holder, file);
    for (Unit& unit : row.units) unit.surely = Grade::kNone;
    row.may_be_lost = true;
  }
}

bool LockBook::IsTaken(size_t holder, size_t file, Span span, Grade grade) const {
  for (size_t other = 0; other < holders_.size(); ++other) {
    const Units& theirs = holders_[other].rows[file].units;
    for (size_t i = span.first; i <= span.last; ++i) {
      if (other != holder && Conflict(grade, theirs[i].surely) && holders_[other].keeps()) return true;
    }
  }
  return false;
}

bool LockBook::MayBeTaken(size_t holder, size_t file, Span span, Grade grade) const {
  for (size_t other = 0; other < holders_.size(); ++other) {
    const Units& theirs = holders_[other].rows[file].units;
    for (size_t i = span.first; i <= span.last; ++i) {
      if (other != holder && Conflict(grade, theirs[i].perhaps)) return true;
    }
  }
  return false;
}

}  // namespace penstock::simulation
