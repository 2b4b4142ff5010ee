// For tests of log messages.
#pragma once

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

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace penstock
