// A program that goes into the background once it is ready, as daemons do: the shell gets its prompt back, with an exit
// code that says whether the program has started.
#pragma once

#include <optional>

namespace penstock::cli {

class Background {
 public:
  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Forks, before the process has other threads. Returns nothing in the child, which goes on, still with this terminal.
  // The parent waits until the child is Ready() or ends, and gets the exit code that it must end with. If the parent is
  // killed before, the child gets SIGTERM.
  std::optional<int> Start();
  // The child is ready: it leaves the terminal and lets the parent end. Without Start(), and when it is called again,
  // this does nothing.
  void Ready();
  // Whether Ready() has left the terminal.
  bool is_away() const { return is_away_; }

 private:
  int parent_ = -1;  // the pipe that the parent reads
  bool is_away_ = false;
};

}  // namespace penstock::cli
