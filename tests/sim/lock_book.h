// Who has which byte-range locks, as far as those who asked for them can tell: never have two what only one may have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock::simulation {

class LockBook {
 public:
  // A file is so many units long, which are locked as wholes.
  static constexpr size_t kUnits = 12;
  struct Span {
    size_t first = 0;
    size_t last = kUnits - 1;
  };
  // In the order of what they keep from others.
  enum class Grade : uint8_t { kNone, kShared, kExclusive };
  // While a call is on its way, a holder has one thing for certain and another perhaps.
  struct Unit {
    Grade surely = Grade::kNone;
    Grade perhaps = Grade::kNone;
  };
  using Units = std::array<Unit, kUnits>;

  explicit LockBook(size_t files) : versions_(files) {}

  // `keeps`: whether nobody may take from the holder what it has, since its lease is not over.
  size_t AddHolder(std::string name, std::function<bool()> keeps);

  // LOCK is on its way; gives what was there before, for HandleDenied().
  Units HandleAsked(size_t holder, size_t file, Span span, Grade grade);
  // What came of it. A text says whose lock it ought to have met; empty: all is as it should be.
  std::string HandleGranted(size_t holder, size_t file, Span span, Grade grade);
  std::string HandleDenied(size_t holder, size_t file, const Units& before);
  // LOCKU, or the file's CLOSE.
  void HandleUnlocking(size_t holder, size_t file, Span span);
  void HandleUnlocked(size_t holder, size_t file, Span span);
  // The server says that the locks are gone. False: nobody was allowed to take them.
  bool HandleLost(size_t holder, size_t file);
  // The holder's lease has been over: others may have what it had, and it has not been told.
  void Doubt(size_t holder);

  // Whether another holder certainly is in the way of such a lock, or perhaps.
  bool IsTaken(size_t holder, size_t file, Span span, Grade grade) const;
  bool MayBeTaken(size_t holder, size_t file, Span span, Grade grade) const;
  // Another one whenever anything of the file has changed.
  uint64_t version(size_t file) const { return versions_[file]; }

 private:
  struct Row {
    Units units{};
    bool may_be_lost = false;
  };
  struct Holder {
    std::string name;
    std::function<bool()> keeps;
    std::vector<Row> rows;  // of each file
  };

  Row& Change(size_t holder, size_t file);
  std::string Meet(size_t holder, size_t file);

  std::vector<Holder> holders_;
  std::vector<uint64_t> versions_;
};

}  // namespace penstock::simulation
