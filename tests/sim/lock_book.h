// LockBook records the byte-range locks of all lockers ("holders") of a simulation, from the replies that they get. It
// finds a server that grants conflicting locks to two holders, or denies a lock without reason.
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
  // A file consists of this number of units. A lock covers whole units.
  static constexpr size_t kUnits = 12;
  struct Span {
    size_t first = 0;
    size_t last = kUnits - 1;
  };
  // The kinds of locks, the weakest first.
  enum class Grade : uint8_t { kNone, kShared, kExclusive };
  // A holder's lock on one unit: the grade that it certainly has, and the highest grade that it may have. The two
  // differ while a call is under way.
  struct Unit {
    Grade surely = Grade::kNone;
    Grade perhaps = Grade::kNone;
  };
  using Units = std::array<Unit, kUnits>;

  explicit LockBook(size_t files) : versions_(files) {}

  // Adds a holder and returns its number. `keeps` tells whether the server must keep the holder's locks, because its
  // lease has not expired.
  size_t AddHolder(std::string name, std::function<bool()> keeps);

  // The holder sends LOCK. Returns the file's units before the call, for HandleDenied().
  Units HandleAsked(size_t holder, size_t file, Span span, Grade grade);
  // The LOCK was granted, or denied. Each function returns the name of another holder with a conflicting lock, or an
  // empty string if the locks are consistent.
  std::string HandleGranted(size_t holder, size_t file, Span span, Grade grade);
  std::string HandleDenied(size_t holder, size_t file, const Units& before);
  // The holder sends LOCKU or the file's CLOSE, and gets the reply.
  void HandleUnlocking(size_t holder, size_t file, Span span);
  void HandleUnlocked(size_t holder, size_t file, Span span);
  // The server says that the holder's locks on the file are lost. Returns false if the server had to keep them.
  bool HandleLost(size_t holder, size_t file);
  // The holder's lease had expired. Other holders may have its locks, although the server has not told the holder yet.
  void Doubt(size_t holder);

  // Tell whether another holder certainly has, or may have, a conflicting lock.
  bool IsTaken(size_t holder, size_t file, Span span, Grade grade) const;
  bool MayBeTaken(size_t holder, size_t file, Span span, Grade grade) const;
  // Returns a number that grows with each change of the file's record.
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
