// Applies a changed configuration to a running server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "cli/serve_options.h"
#include "cli/served_exports.h"
#include "server/server.h"

namespace penstock::cli {

// The result of a reload.
struct Reloaded {
  // Mistakes: if one of them is an error, nothing has changed.
  std::vector<Finding> findings;
  // One line for each change: "exports /data", "no longer exports /old", "exports /home with other options", and so on.
  std::vector<std::string> changes;
  // The options that are changed in the configuration, but keep their value until the server starts again.
  std::vector<std::string> after_restart;

  bool succeeded() const;
};

// Thread-safe. One reload runs at a time.
class Reloader {
 public:
  // Makes the options from the command line, the environment and the files as they are now.
  using Configure = std::function<Result<ServeOptions, std::vector<Finding>>()>;

  struct Hooks {
    // Called before each reload, and with its result.
    std::function<void()> on_begin = [] {};
    std::function<void(const Reloaded&)> on_end = [](const Reloaded&) {};
    // Takes over the options that belong to the process rather than to the server, such as those of the log. A reload
    // without a mistake calls it.
    std::function<void(const ServeOptions&)> adopt = [](const ServeOptions&) {};
  };

  // `now`: the options of the running server. `exports` and `server` outlive this.
  Reloader(Configure configure, ServeOptions now, ServedExports& exports, server::Server& server, Hooks hooks)
      : configure_(std::move(configure)),
        hooks_(std::move(hooks)),
        now_(std::move(now)),
        exports_(exports),
        server_(server) {}
  // Waits for the reload that runs.
  ~Reloader();

  // From now on no reload changes the server: one that still reads files fails. Does not wait for it.
  void Stop() { stopped_ = true; }

  // Reads the configuration and applies it: all of what can be changed while the server runs, or nothing if there is a
  // mistake. Blocks, as files and directories are read.
  Reloaded Run();
  // Does that soon, on another thread, and logs what it has done. `why` begins each line, such as "SIGHUP".
  void RunLater(std::string why);

 private:
  Reloaded Apply();
  void RunAll(const std::string& why);

  const Configure configure_;
  const Hooks hooks_;
  std::atomic<bool> stopped_ = false;
  std::mutex running_;  // while a reload runs; guards the next three
  ServeOptions now_;
  ServedExports& exports_;
  server::Server& server_;

  std::mutex mutex_;  // guards the next two
  bool wanted_ = false;
  bool is_busy_ = false;
  std::thread later_;  // belongs to whoever has set is_busy_
};

// Logs what Run() has done.
void LogReload(std::string_view why, const Reloaded& reloaded);

}  // namespace penstock::cli
