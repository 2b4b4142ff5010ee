// The log of what peers are refused: one line with the reason for each refusal, at a bounded rate. A line is a lever
// for whoever can forge a packet, so neither the lines nor the memory grow with the number of refusals.
//
// For one host, reason and export, the first refusal is logged at once. Then there is at most one line a minute, which
// tells the number of refusals since the line before. All hosts together get a limited number of lines in a second; one
// more line tells how many were left out.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/timer.h"

namespace penstock {

// What a line is about. All refusals with equal members share a line.
struct Refusal {
  IpAddress client;
  // One word for programs that read the log, such as "root_squash". A literal.
  std::string_view reason;
  // The path of the export; empty if the refusal concerns none. Never a text that a peer chooses: each text has lines
  // of its own.
  std::string_view export_path{};
};

// The rest of a line. Texts of a peer may be part of it; control characters are replaced.
struct RefusalDetails {
  // What is refused, and why, and which option would allow it: "is refused the export /data: ...".
  std::string text;
  std::string user{};       // "uid 0" or a principal; empty if it is unknown
  std::string operation{};  // "SETATTR of version 3"; empty for connections and the like
};

// Thread-safe. Logs warnings of the module "refusals", with the fields client, reason, export, user and operation.
class RefusalLog {
 public:
  struct Limits {
    size_t entries = 1024;                        // hosts, reasons and exports that it remembers; the oldest goes
    Duration interval = std::chrono::minutes(1);  // between two lines with equal Refusal
    size_t lines_per_second = 20;                 // of all
  };
  using Clock = std::function<TimePoint()>;

  RefusalLog() : RefusalLog(Limits()) {}
  explicit RefusalLog(Limits limits, Clock now = &std::chrono::steady_clock::now)
      : limits_(limits), now_(std::move(now)) {}

  // Logs or counts a refusal. `details` is a function without arguments that returns RefusalDetails, and is called only
  // for a refusal that may be logged.
  template <class Make>
  void Tell(const Refusal& refusal, Make&& details) {
    if (const TimePoint now = now_(); MayLog(refusal, now)) Log(refusal, std::forward<Make>(details)(), now);
  }

  // Logs the numbers that are due. Call it about once a second, so that the count of a burst follows within a minute.
  void Flush();
  // Logs all numbers, as at the end of the server.
  void Finish();

 private:
  struct Key {
    IpAddress client;
    std::string reason;
    std::string export_path;
    std::weak_ordering operator<=>(const Key&) const = default;
  };
  struct Entry {
    TimePoint again;      // from then on it may have another line
    uint64_t untold = 0;  // refusals since the last line
    RefusalDetails details;
  };
  using Entries = std::map<Key, Entry>;
  // Lines that are logged when the mutex is free.
  struct Line {
    Key key;
    RefusalDetails details;
    uint64_t more = 0;
  };

  static Key KeyOf(const Refusal& refusal);
  bool MayLog(const Refusal& refusal, TimePoint now);
  void Log(const Refusal& refusal, RefusalDetails details, TimePoint now);
  // These require the mutex.
  bool TakeLine(TimePoint now, uint64_t& left_out);
  void MakeRoom();

  void Flush(bool all);
  static void Write(const Line& line);
  void WriteLeftOut(uint64_t left_out) const;

  const Limits limits_;
  const Clock now_;
  std::mutex mutex_;  // guards the rest; not held while a line is written
  Entries entries_;
  TimePoint second_{};  // the beginning of the second that `lines_` counts
  size_t lines_ = 0;
  uint64_t left_out_ = 0;  // refusals without a line, and without an entry
};

}  // namespace penstock
