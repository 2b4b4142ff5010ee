// What the commands that copy trees have in common: their options, and the run of a copy with its mounts, its report
// and its end by a signal.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/common_options.h"
#include "cli/copy_ends.h"
#include "cli/copy_report.h"
#include "copying/copier.h"

namespace CLI {
class App;
}

namespace penstock::cli {

struct CopyRunOptions : ClientOptions {
  copying::Options copy;
  ReportOptions report;
  std::string limit;  // of the rate; empty: none
  bool no_owner = false;
};

// Adds the options that all commands have which copy trees.
void AddCopyRunOptions(CLI::App& command, CopyRunOptions& options);

// What a command copies.
struct CopyPlan {
  copying::Tree* target = nullptr;  // null: there is nothing to copy
  struct Source {
    CopyEnd from;
    std::shared_ptr<copying::Directory> to;
    std::string name;  // in `to`
    // The entries of the directory `from` are copied into `to`, or into a new directory `name` in it.
    bool contents_only = false;
  };
  std::vector<Source> sources{};
  // Not -1: the only source is this open file, which is read to its end. Source::from is unset.
  struct Stream {
    int fd = -1;
    std::string from{};    // its name in messages
    uint32_t mode = 0600;  // of its copy
  };
  Stream stream{};
};
// Finds out what to copy. Reports errors of single sources, and leaves those out.
using MakePlan = std::function<Task<client::Result<CopyPlan>>(CopyEnds& ends, CopyReport& report)>;

// Runs a copy to its end. Returns the exit code. `texts` are the arguments of the command line.
int RunCopy(const std::vector<std::string>& texts, CopyRunOptions options, const MakePlan& plan);

}  // namespace penstock::cli
