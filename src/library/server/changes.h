// Tells whether a change of an object was the only one, so that the attributes before and after it belong together (RFC
// 1813 §2.6): a client that trusts them would otherwise miss the change of another one.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "fs/types.h"

namespace penstock::library {

// Any thread.
class Changes {
 public:
  // A change of one object, from before its first attributes are read until after its last ones are.
  class Change {
   public:
    Change(Changes& all, const fs::Handle& object) : all_(all), object_(object) {
      const std::scoped_lock lock(all_.mutex_);
      Entry& entry = all_.entries_[object_];
      was_alone_ = entry.active++ == 0;
      began_ = ++entry.began;
    }
    ~Change() {
      const std::scoped_lock lock(all_.mutex_);
      const auto entry = all_.entries_.find(object_);
      if (--entry->second.active == 0) all_.entries_.erase(entry);
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    // Whether no other change of the object was under way at any time since this one began.
    bool IsAlone() const {
      const std::scoped_lock lock(all_.mutex_);
      return was_alone_ && all_.entries_.at(object_).began == began_;
    }

   private:
    Changes& all_;
    const fs::Handle object_;
    bool was_alone_ = false;
    uint64_t began_ = 0;
  };

 private:
  struct Entry {
    size_t active = 0;
    uint64_t began = 0;  // counts the changes that have begun while one was under way
  };
  std::mutex mutex_;
  std::unordered_map<fs::Handle, Entry> entries_;  // of objects with changes under way
};

}  // namespace penstock::library
