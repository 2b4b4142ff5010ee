// The end of a file that programs append to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/timer.h"

namespace penstock::fuse {

// The end of a file, for programs that append: that of the kernel may be older than a lock, so FUSE leaves the place of
// appended data to the file system. Unlike Attributes::size, the end has all data that programs of this tree have
// written: no attributes that are older than they change it.
class FileEnd {
 public:
  // A call that asks the server for the size. `unsent` is the end of the data that the server may not have when it is
  // asked.
  struct Question {
    uint64_t number = 0;
    uint64_t changes = 0;
    uint64_t unsent = 0;
  };
  // `unsent_end` is that of WriteBehind.
  Question Ask(uint64_t unsent_end) {
    return {.number = ++last_question_,
            .changes = changes_,
            .unsent = std::max(unsent_end, writing_ > 0 ? written_ : uint64_t{0})};
  }
  // Handles the answer, which came at `now`. One that may be older than a change of this tree, or than another answer,
  // says nothing.
  void HandleAnswer(const Question& question, uint64_t size, TimePoint now) {
    if (question.changes != changes_ || question.number < answered_) return;
    answered_ = question.number;
    end_ = std::max(size, question.unsent);
    is_known_ = true;
    if (question.number >= first_valid_) valid_since_ = now;
  }
  // A program writes octets before `end`. Until EndWrite() they need not be in a WriteBehind.
  void BeginWrite(uint64_t end) {
    ++changes_;
    end_ = std::max(end_, end);
    written_ = writing_++ > 0 ? std::max(written_, end) : end;
  }
  void EndWrite() { --writing_; }
  // Data are lost, or the end is another one for other reasons.
  void Forget() {
    ++changes_;
    is_known_ = false;
    valid_since_.reset();
  }
  // From now on the server must have been asked later than now, as after an open and a lock.
  void Expire() {
    first_valid_ = last_question_ + 1;
    valid_since_.reset();
  }

  // Returns nothing if the server must be asked: it was not, or longer ago than `validity`.
  std::optional<uint64_t> At(TimePoint now, Duration validity) const {
    return valid_since_ && now - *valid_since_ < validity ? std::optional(end_) : std::nullopt;
  }
  // The end as this tree knows it, whatever other clients have done since the last answer. Nothing: there was none.
  std::optional<uint64_t> Latest() const { return is_known_ ? std::optional(end_) : std::nullopt; }
  // Returns nothing if there is no answer to `question` or to a later one, or if it may not be right any more.
  std::optional<uint64_t> AnsweredSince(const Question& question) const {
    return is_known_ && answered_ >= question.number ? std::optional(end_) : std::nullopt;
  }

 private:
  uint64_t changes_ = 0;
  uint64_t last_question_ = 0;
  uint64_t answered_ = 0;
  uint64_t first_valid_ = 0;
  uint64_t end_ = 0;
  size_t writing_ = 0;    // writes that have begun and not ended
  uint64_t written_ = 0;  // their end
  bool is_known_ = false;
  std::optional<TimePoint> valid_since_;
};

}  // namespace penstock::fuse
