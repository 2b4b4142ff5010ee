// For tests of log messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "base/log.h"

namespace penstock {

// Captures the messages of level info and above that are logged during its lifetime, one line each: "level: text". Only
// one may exist in a process.
class CapturedLog {
 public:
  CapturedLog() {
    log::SetSink(
        [this](const log::Record& record) {
          const std::scoped_lock lock(mutex_);
          text_.append(log::ToString(record.level)).append(": ").append(record.message).append("\n");
        },
        log::Level::kInfo);
  }
  ~CapturedLog() { log::SetSink({}); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

  // Returns the lines that no call of this function or of TakeOne() has returned before.
  std::string Take() {
    const std::scoped_lock lock(mutex_);
    const std::string text = text_.substr(taken_);
    taken_ = text_.size();
    return text;
  }

  // The same for one line. The test fails if there is not exactly one.
  std::string TakeOne() {
    const std::string text = Take();
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  size_t taken_ = 0;
};

}  // namespace penstock
