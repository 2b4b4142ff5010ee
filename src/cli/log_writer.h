// Writes the lines of a server's log on a thread of its own. A thread that logs never waits for the reader of standard
// error: a pipe that nobody reads would otherwise stop all calls.
//
// The queue to the thread is bounded. If it is full, messages are lost. The log then has a line with their number, in
// the place of the lost messages.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/timer.h"
#include "cli/logging.h"

namespace penstock::cli {

// Thread-safe, except Start() and End().
class LogWriter {
 public:
  // The most octets of lines that wait for the thread.
  static constexpr size_t kMostOctets = 1 << 20;

  // `file`: the descriptor to write to. It stays open as long as the process, or until End() has returned true.
  // SIGPIPE must be ignored.
  explicit LogWriter(int file, size_t most_octets = kMostOctets);
  // Calls End() with a limit of zero.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Starts the thread, which takes no signals. Before that, Add() writes by itself. Called once.
  void Start();
  // The format of the lines that tell how many messages were lost. At first text.
  void SetFormat(LogFormat format);
  // Writes `line`, which includes its end, after those that were added before. Does not wait for the file once the
  // thread runs.
  void Add(std::string line);
  // The same for a line that is not lost, however many wait: the reason why the program ends.
  void AddAnyway(std::string line);
  // Waits until all lines that were added before are written or lost, up to `limit`. Returns false if some are left.
  bool Flush(Duration limit);
  // Does the same, without a limit if there is none, and then ends the thread: lines that are added later are lost. If
  // this returns false, the thread still waits for the file, and may write until the process ends.
  bool End(std::optional<Duration> limit);

 private:
  struct Shared;
  static void Run(Shared& shared);
  void Add(std::string line, bool anyway);

  const std::shared_ptr<Shared> shared_;  // with the thread, which may live longer
  std::thread thread_;
};

}  // namespace penstock::cli
